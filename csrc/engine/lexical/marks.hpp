// Where a text holds what a query asks for.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/lexical/query.hpp"
#include "text/analyzer.hpp"

namespace hyrecall {

struct Mark {
  text::Span span;
  std::uint32_t leaf;  // of the query
};

// The query as its caller asked it: without the terms that other documents added to its words.
TextQuery as_asked(TextQuery query);

// The words of the text that a reader, which locates, has read last, of which the leaves of the
// query are made: of a phrase where the phrase is. Whether the text meets the whole query does not
// matter.
std::vector<Mark> find_marks(LexicalQuery const& query, text::Reader const& reader);

}  // namespace hyrecall
