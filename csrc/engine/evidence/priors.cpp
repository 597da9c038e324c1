// What the values of a column add to the scores of a pool.
#include <algorithm>

#include "core/error.hpp"
#include "engine/evidence/surroundings.hpp"

namespace hyrecall {

PriorCodes prior_codes(Prior const& prior, Segment const& segment) {
  AttributeColumn const& column = *segment.p.attributes[prior.attribute];
  bool const is_text = column.kind == CodeKind::kText;
  require(!column.is_list && (is_text ? prior.codes.empty() : prior.texts.empty()),
          "a prior's values of the column's kind");
  PriorCodes out;
  for (std::size_t i = 0; i < prior.codes.size(); ++i)
    out.emplace_back(prior.codes[i], prior.addends[i]);
  for (std::size_t i = 0; i < prior.texts.size(); ++i) {
    if (auto const code = column.find(prior.texts[i])) out.emplace_back(*code, prior.addends[i]);
  }
  std::sort(out.begin(), out.end());
  return out;
}

void add_priors(Prior const& prior, Snapshot const& snapshot, std::span<PriorCodes const> columns,
                QueryCandidates& pool) {
  std::vector<double>& priors = pool.evidence->priors;
  priors.assign(pool.docs.size(), 0.0);
  for (std::size_t i = 0; i < pool.docs.size(); ++i) {
    DocRef const doc = pool.docs[i].doc;
    AttributeColumn const& column =
        *snapshot.segments[doc.segment]->segment().p.attributes[prior.attribute];
    if (!column.valid_in(doc.row / kTileRows).test(doc.row % kTileRows)) continue;
    PriorCodes const& known = columns[doc.segment];
    std::int64_t const code = column.codes[doc.row];
    auto const at = std::lower_bound(known.begin(), known.end(), code,
                                     [](auto const& one, std::int64_t c) { return one.first < c; });
    if (at != known.end() && at->first == code) priors[i] = at->second;
  }
}

}  // namespace hyrecall
