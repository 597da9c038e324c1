#include "engine/lexical/forward_rows.hpp"

#include <algorithm>

#include "engine/lexical/column.hpp"

namespace hyrecall {

void ForwardRows::encode(TokenRows& rows) {
  ends_.clear();
  std::size_t const most = rows.tokens.size() * kMostTokenBytes;
  if (bytes_.size() < most) bytes_.resize(std::max(most, 2 * bytes_.size()));
  std::uint8_t* to = bytes_.data();
  auto const before = [](TokenRows::Token const& a, TokenRows::Token const& b) {
    return a.position < b.position;
  };
  std::size_t begin = 0;
  for (std::size_t const end : rows.ends) {
    std::span<TokenRows::Token> const document(rows.tokens.data() + begin, end - begin);
    if (!std::is_sorted(document.begin(), document.end(), before))
      std::stable_sort(document.begin(), document.end(), before);
    std::uint32_t position = kBeforeFirst;
    for (TokenRows::Token const& token : document)
      to = put_token(to, token.term, token.position, position);
    ends_.push_back(static_cast<std::uint64_t>(to - bytes_.data()));
    begin = end;
  }
  n_bytes_ = static_cast<std::size_t>(to - bytes_.data());
}

}  // namespace hyrecall
