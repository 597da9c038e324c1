// The arrays of a reply, which Python's arrays are views of.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/request/reply.hpp"
#include "engine/request/request.hpp"

namespace hyrecall::bindings {

// What evidence added to the hits of a reply, an array for each part.
struct EvidenceColumns {
  EvidenceColumns() = default;
  EvidenceColumns(ReplyArrays const& arrays, Evidence const& evidence);

  std::vector<double> addends;         // [n_addends, n_hits]
  std::vector<double> neighbours;      // [n_hits] of all distances together, NaN = none spoke
  std::vector<std::uint32_t> segment;  // [n_distances, n_hits]
  std::vector<Row> row;                // [n_distances, n_hits]
};

struct GivenReply {
  ReplyArrays arrays;
  EvidenceColumns columns;

  GivenReply(ReplyArrays made, std::optional<Evidence> const& evidence) : arrays(std::move(made)) {
    if (evidence) columns = EvidenceColumns(arrays, *evidence);
  }
};

pybind11::dict give_reply(std::shared_ptr<GivenReply const> reply,
                          std::optional<Evidence> const& evidence);

}  // namespace hyrecall::bindings
