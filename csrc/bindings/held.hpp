// Objects that Python holds and several bindings use: an execution, through which documents are
// read, what it found, and a tensor of another library.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "device/device_guest.hpp"
#include "engine/recall.hpp"

namespace hyrecall::bindings {

// Keeps the objects that an Execution refers to.
struct HeldExecution {
  std::shared_ptr<Snapshot> snapshot;
  std::shared_ptr<BatchRequest> request;
  std::unique_ptr<Execution> execution;
};

// Opaque to Python, because nested vectors would be converted to lists.
struct HeldStatistics {
  std::shared_ptr<Statistics const> values;
};
struct HeldCandidates {
  std::vector<QueryCandidates> of_queries;
};

// A tensor on a device, until a request or a snapshot takes it over.
struct HeldGuest {
  device::Guest guest;

  device::Guest take() {
    require(guest.gate != nullptr, "a tensor that nobody has taken");
    return std::exchange(guest, {});
  }
};

}  // namespace hyrecall::bindings
