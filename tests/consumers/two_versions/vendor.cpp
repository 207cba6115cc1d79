#include "../selection.hpp"  // selection, attention

// VENDOR: this, other. Names the four functions that main.cpp calls.
#define CONCATENATE(a, b) a##_##b
#define EXPORT(vendor, name) CONCATENATE(vendor, name)

int EXPORT(VENDOR, minor_version)() { return KVPOP_VERSION_MINOR; }

std::string EXPORT(VENDOR, selection)() { return selection(); }

std::vector<float> EXPORT(VENDOR, attention)() { return attention(); }

/// Whether an error of this library is caught here as what it is.
bool EXPORT(VENDOR, catches_its_error)() {
  try {
    kvpop::budget{.window = 0}.validate();
  } catch (const kvpop::error&) {
    return true;
  }
  return false;
}
