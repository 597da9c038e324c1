// Text queries as the library of the device takes them.
#pragma once

#include "device/device_library.hpp"
#include "device/text_queries.hpp"

namespace hyrecall::device {

inline cuda::TextParams params_of(TextQueries const& from, std::span<LexicalText const> texts) {
  return {array(texts),
          array(from.weights),
          array(from.shifts),
          array(from.lists),
          array(from.own_lists),
          array(from.own_postings),
          array(from.own_runs),
          array(from.own_escapes),
          array(from.match_steps),
          array(from.scales),
          from.bm25};
}

}  // namespace hyrecall::device
