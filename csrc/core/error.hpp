// The one error type of the engine. Bindings turn it into a Python class (bind_errors.cpp).
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace hyrecall {

enum class ErrorCode {
  kShape,              // axes, extents or lengths that do not agree
  kDtype,              // an unsupported element type
  kOption,             // a value outside its named range
  kScope,              // a scope or predicate that the schema cannot answer
  kKey,                // a duplicate or null key
  kDeviceUnavailable,  // the named device does not exist or cannot be used
  kDeviceMemory,       // the device ran out of memory
  kCorrupt,            // a file that is damaged or not ours
  kInternal,           // a bug of ours
};

// Message form: "argument: expected X, got Y".
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string argument, std::string const& detail)
      : std::runtime_error(argument + ": " + detail), code_(code), argument_(std::move(argument)) {}

  ErrorCode code() const { return code_; }
  std::string const& argument() const { return argument_; }

 private:
  ErrorCode code_;
  std::string argument_;
};

// Guards an invariant of our own; user input never reaches it.
inline void require(bool holds, char const* what) {
  if (!holds)
    throw Error(ErrorCode::kInternal, "hyrecall",
                std::string("expected ") + what + "; please report this");
}

}  // namespace hyrecall
