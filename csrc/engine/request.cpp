#include "engine/request.hpp"

#include <unordered_map>

namespace hyrecall {
namespace {

template <typename T>
std::vector<T> part_of(std::vector<T> const& all, std::size_t begin, std::size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

// Numbers that point into `all` are made to point into what is used of it; `none` stays.
template <typename T>
std::vector<T> keep_used(std::vector<T> const& all, std::vector<std::uint32_t>& numbers) {
  std::vector<T> used;
  std::unordered_map<std::uint32_t, std::uint32_t> place;
  for (std::uint32_t& number : numbers) {
    if (number == kNone32) continue;
    auto const [at, is_new] = place.emplace(number, static_cast<std::uint32_t>(used.size()));
    if (is_new) used.push_back(all[number]);
    number = at->second;
  }
  return used;
}

}  // namespace

Request Request::slice(std::size_t begin, std::size_t end) const {
  Request out;
  out.n_queries = end - begin;
  out.first_query = first_query + begin;
  out.scope_of = part_of(scope_of, begin, end);
  out.scopes = keep_used(scopes, out.scope_of);
  out.filter_of = part_of(filter_of, begin, end);
  out.filters = keep_used(filters, out.filter_of);
  for (LexicalRequest const& arm : lexical) {
    out.lexical.push_back({arm.column, arm.name, arm.bm25, arm.analyzer,
                           part_of(arm.queries, begin, end), arm.floor});
  }
  for (DenseRequest const& arm : dense) {
    bool const has_guest = arm.guest != nullptr;
    out.dense.push_back({arm.column, arm.name,
                         has_guest ? arm.queries : part_of(arm.queries, begin, end), arm.floor,
                         arm.guest, arm.guest_begin + begin});
  }
  for (ListedRequest const& arm : listed)
    out.listed.push_back({arm.name, part_of(arm.queries, begin, end), arm.floor});
  out.depth = depth;
  out.fusion = fusion;
  out.min_fused = min_fused;
  out.normalize = normalize;
  out.limit = limit;
  out.offset = offset;
  out.threads = threads;
  out.settings = settings;
  return out;
}

}  // namespace hyrecall
