#include "engine/related/listed.hpp"

#include <algorithm>

namespace hyrecall {

std::vector<Candidate> list_candidates(Snapshot const& snapshot, Audience const& audience,
                                       std::uint32_t group, std::span<ListedDoc const> given,
                                       Floor<float> const& floor, std::size_t depth) {
  std::vector<Candidate> list;
  for (ListedDoc const& one : given) {
    if (!floor.passes(one.score) || !audience.sees(group, one.doc)) continue;
    Seq const seq = snapshot.segments[one.doc.segment]->segment().p.seqs[one.doc.row];
    list.push_back({one.score + 0.0f, seq, one.doc});  // -0 + 0 is +0
  }
  std::sort(list.begin(), list.end(), [](Candidate const& a, Candidate const& b) {
    return a.seq != b.seq ? a.seq < b.seq : a.score > b.score;
  });
  auto const same = [](Candidate const& a, Candidate const& b) { return a.seq == b.seq; };
  list.erase(std::unique(list.begin(), list.end(), same), list.end());
  std::sort(list.begin(), list.end());
  if (list.size() > depth) list.resize(depth);
  return list;
}

}  // namespace hyrecall
