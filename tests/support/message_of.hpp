#pragma once

#include <string>

#include "kvpop/core/error.hpp"  // error

namespace kvpop_test {

/// The message of the error that `act` throws; "no error" when it throws none.
template <class Act>
std::string message_of(Act&& act) {
  try {
    act();
  } catch (const kvpop::error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace kvpop_test
