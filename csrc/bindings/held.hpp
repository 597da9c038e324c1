// What Python holds of an execution, for the modules that read documents through it.
#pragma once

#include <memory>

#include "engine/recall.hpp"

namespace hyrecall::bindings {

// Keeps what an Execution refers to.
struct HeldExecution {
  std::shared_ptr<Snapshot> snapshot;
  std::shared_ptr<Request> request;
  std::unique_ptr<Execution> execution;
};

}  // namespace hyrecall::bindings
