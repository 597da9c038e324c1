#include "engine/request/text_query.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace hyrecall {
namespace {

constexpr int kMaxNesting = 32;  // queries are compiled and matched by recursion

TextQuery make_leaf(TextQuery::Kind kind, std::string text) {
  TextQuery out;
  out.kind = kind;
  out.text = std::move(text);
  return out;
}

TextQuery make_group(TextQuery::Kind kind, std::vector<TextQuery> children) {
  TextQuery out;
  out.kind = kind;
  for (TextQuery const& child : children) out.nesting = std::max(out.nesting, child.nesting + 1);
  if (out.nesting > kMaxNesting) {
    throw Error(
        ErrorCode::kOption, "text",
        "expected queries nested at most " + std::to_string(kMaxNesting) + " deep, got more");
  }
  out.children = std::move(children);
  return out;
}

TextQuery make_wrapper(TextQuery::Kind kind, TextQuery query) {
  std::vector<TextQuery> children;
  children.push_back(std::move(query));
  return make_group(kind, std::move(children));
}

}  // namespace

TextQuery TextQuery::of_text(std::string text) {
  return make_leaf(Kind::kText, std::move(text));
}

TextQuery TextQuery::phrase(std::string text, std::uint32_t slop) {
  TextQuery out = make_leaf(Kind::kPhrase, std::move(text));
  out.slop = slop;
  return out;
}

TextQuery TextQuery::prefix(std::string text, std::uint32_t slop) {
  TextQuery out = make_leaf(Kind::kPrefix, std::move(text));
  out.slop = slop;
  return out;
}

TextQuery TextQuery::fuzzy(std::string text, std::uint32_t edits) {
  TextQuery out = make_leaf(Kind::kFuzzy, std::move(text));
  out.edits = edits;
  return out;
}

TextQuery TextQuery::boosted(double factor, TextQuery query) {
  TextQuery out = make_wrapper(Kind::kBoost, std::move(query));
  out.boost = factor;
  return out;
}

TextQuery TextQuery::all(std::vector<TextQuery> queries) {
  return make_group(Kind::kAll, std::move(queries));
}

TextQuery TextQuery::any(std::vector<TextQuery> queries) {
  return make_group(Kind::kAny, std::move(queries));
}

TextQuery TextQuery::excluded(TextQuery query) {
  return make_wrapper(Kind::kNot, std::move(query));
}

}  // namespace hyrecall
