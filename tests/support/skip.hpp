#pragma once

namespace kvpop_test {

/// Says that a case could not run here (no network, no model) and why; ctest then shows the file as skipped, unless one
/// of its cases failed. The caller returns from its case.
void skip(const char* reason);

}  // namespace kvpop_test
