#include "engine/related/newest.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/formulas.hpp"
#include "core/parallel.hpp"

namespace hyrecall {
namespace {

constexpr std::int64_t kOldest = std::numeric_limits<std::int64_t>::min();

// Newer first, a document with a value before one without.
bool is_newer(NewestDoc const& a, NewestDoc const& b) {
  if (a.has_value != b.has_value) return a.has_value;
  return a.code != b.code ? a.code > b.code : a.candidate.seq < b.candidate.seq;
}

// Keeps the best n of what it is offered, in a heap whose top is the last of them.
class NewestFew {
 public:
  explicit NewestFew(std::size_t n) : n_(n) {}

  // Whether a document with this value at most cannot be among them.
  bool is_hopeless(std::int64_t code, bool has_value) const {
    if (n_ == 0) return true;
    if (kept_.size() < n_) return false;
    NewestDoc const& last = kept_.front();
    return last.has_value && (!has_value || code < last.code);
  }
  void offer(NewestDoc const& doc) {
    if (kept_.size() == n_) {
      if (n_ == 0 || !is_newer(doc, kept_.front())) return;
      std::pop_heap(kept_.begin(), kept_.end(), is_newer);
      kept_.pop_back();
    }
    kept_.push_back(doc);
    std::push_heap(kept_.begin(), kept_.end(), is_newer);
  }
  std::vector<NewestDoc> take() {
    std::sort(kept_.begin(), kept_.end(), is_newer);
    return std::move(kept_);
  }

 private:
  std::size_t n_;
  std::vector<NewestDoc> kept_;
};

}  // namespace

std::vector<NewestDoc> newest_rows(Snapshot const& snapshot, GroupTiles const& tiles,
                                   std::size_t attribute, std::size_t n, bool with_missing) {
  struct Place {
    std::int64_t newest;
    bool has_value;
    std::uint32_t segment;
    SelectedTile const* tile;
  };
  std::vector<Place> places;
  for (std::uint32_t s = 0; s < tiles.size(); ++s) {
    Segment::Parts const& parts = snapshot.segments[s]->segment().p;
    require(attribute < parts.attributes.size(), "an attribute column");
    AttributeColumn const& column = *parts.attributes[attribute];
    require(!column.is_list && column.kind != CodeKind::kText, "one number or time a row");
    for (SelectedTile const& tile : tiles[s]) {
      Zone const& zone = column.zones()[tile.tile];
      bool const has_value = zone.min <= zone.max;
      if (has_value || with_missing)
        places.push_back({has_value ? zone.max : kOldest, has_value, s, &tile});
    }
  }
  // Newest tiles first: most of the others are then skipped by their zone maps.
  std::sort(places.begin(), places.end(), [](Place const& a, Place const& b) {
    return a.has_value != b.has_value ? a.has_value : a.newest > b.newest;
  });
  NewestFew best(n);
  for (Place const& place : places) {
    if (best.is_hopeless(place.newest, place.has_value)) break;
    Segment::Parts const& parts = snapshot.segments[place.segment]->segment().p;
    AttributeColumn const& column = *parts.attributes[attribute];
    TileMask const valid = column.valid_in(place.tile->tile);
    for_each_bit(place.tile->mask, [&](Row i) {
      Row const row = place.tile->tile * kTileRows + i;
      bool const is_nan = column.kind == CodeKind::kFloat && column.codes[row] == kNanCode;
      bool const has_value = valid.test(i) && !is_nan;
      if (!has_value && !with_missing) return;
      best.offer({{0.0f, parts.seqs[row], {place.segment, row}},
                  has_value ? column.codes[row] : kOldest,
                  has_value});
    });
  }
  return best.take();
}

std::vector<std::vector<Candidate>> newest_candidates(Snapshot const& snapshot,
                                                      Audience const& audience,
                                                      std::size_t attribute, std::size_t n,
                                                      bool with_missing, int threads) {
  std::vector<std::vector<Candidate>> groups(audience.n_groups());
  parallel_for(groups.size(), threads, [&](int, std::size_t group) {
    std::int64_t place = 0;
    std::int64_t last = 0;
    for (NewestDoc const& found :
         newest_rows(snapshot, audience.tiles(group), attribute, n, with_missing)) {
      Candidate& one = groups[group].emplace_back(found.candidate);  // score 0: it has no value
      if (!found.has_value) continue;
      if (place == 0 || found.code != last) ++place;
      last = found.code;
      one.score = static_cast<float>(place_score(place));
    }
  });
  return groups;
}

}  // namespace hyrecall
