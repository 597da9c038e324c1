// Versions of one index as a writer makes them: segments added, rows deleted, segments merged. Each
// version remembers its live documents, so that a quiet oracle can answer for it afterwards.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/dense/column.hpp"
#include "engine/segment/merge_order.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {

struct TextDoc : Doc {
  std::string text;
};
using TextDocs = std::vector<TextDoc>;

// Documents in a segment's order, with both arms and the attributes that filters ask.
inline std::shared_ptr<Segment const> text_segment_of(
    TextDocs const& docs, WorldOptions const& options,
    std::shared_ptr<LexicalColumn const> lexical = nullptr,
    std::shared_ptr<DenseColumn const> dense = nullptr) {
  std::vector<Doc> const plain(docs.begin(), docs.end());
  Segment::Parts parts = segment_of(plain, options)->p;
  if (lexical == nullptr) {
    Documents texts;
    for (TextDoc const& doc : docs) {
      texts.cells.push_back(doc.cell);
      texts.texts.push_back(doc.text);
      texts.seqs.push_back(doc.seq);
    }
    lexical = lexical_of(texts);
  }
  parts.lexical.push_back(std::move(lexical));
  if (dense != nullptr) parts.dense = {std::move(dense)};
  return std::make_shared<Segment const>(std::move(parts));
}

struct Version {
  std::uint64_t number = 0;
  Snapshot snapshot;
};

// What changed from a version to the next: a merge changes nothing.
struct Change {
  TextDocs added;
  std::vector<Seq> removed;
};

class Index {
 public:
  Index(std::uint64_t seed, std::size_t n_docs, WorldOptions const& options)
      : rng_(seed), options_(options) {
    add(n_docs);
  }

  // A random change, and the version that it makes.
  std::shared_ptr<Version const> next() {
    std::uint64_t const way = rng_.below(std::uint64_t{20});
    if (held_.size() > kMostSegments || way == 0) {
      merge(0);
    } else if (way < 5 && held_.size() > 2) {
      merge(rng_.below(held_.size() - 1));
    } else if (way < 11) {
      remove(1 + rng_.below(std::size_t{40}));
    } else {
      add(1 + rng_.below(std::size_t{48}));
    }
    return version();
  }

  std::shared_ptr<Version const> version() const {
    auto out = std::make_shared<Version>();
    out->number = changes_.size() - 1;
    for (Held const& one : held_) out->snapshot.segments.push_back(one.view);
    return out;
  }

  // [version]: the change that led to it.
  std::vector<Change> const& changes() const { return changes_; }

 private:
  static constexpr std::size_t kMostSegments = 14;

  struct Held {
    std::shared_ptr<SegmentView const> view;
    TextDocs docs;  // by row
  };

  void add(std::size_t n) {
    TextDocs docs;
    for (std::size_t i = 0; i < n; ++i) {
      TextDoc doc{random_doc(rng_, options_), random_text(rng_, 12, 40)};
      doc.seq = doc.key = next_seq_++;
      docs.push_back(std::move(doc));
    }
    std::sort(docs.begin(), docs.end(), [](TextDoc const& a, TextDoc const& b) {
      return std::tie(a.cell, a.seq) < std::tie(b.cell, b.seq);
    });
    held_.push_back({std::make_shared<SegmentView const>(text_segment_of(docs, options_)), docs});
    changes_.push_back({std::move(docs), {}});
  }

  void remove(std::size_t n) {
    Change change;
    std::map<std::size_t, std::vector<Row>> rows;
    for (; n > 0; --n) {
      std::size_t const at = rng_.below(held_.size());
      Row const row = rng_.below(static_cast<Row>(held_[at].docs.size()));
      std::vector<Row>& here = rows[at];
      if (!held_[at].view->live()[row] || std::count(here.begin(), here.end(), row) > 0) continue;
      here.push_back(row);
      change.removed.push_back(held_[at].docs[row].seq);
    }
    for (auto& [at, dead] : rows) {
      std::sort(dead.begin(), dead.end());
      held_[at].view = std::make_shared<SegmentView const>(held_[at].view->without(dead));
    }
    changes_.push_back(std::move(change));
  }

  // All segments from `first` on become one, without their dead.
  void merge(std::size_t first) {
    std::vector<std::shared_ptr<SegmentView const>> views;
    std::vector<std::shared_ptr<LexicalColumn const>> lexical;
    std::vector<std::shared_ptr<DenseColumn const>> dense;
    for (std::size_t at = first; at < held_.size(); ++at) {
      views.push_back(held_[at].view);
      lexical.push_back(held_[at].view->segment().p.lexical[0]);
      dense.push_back(held_[at].view->segment().p.dense[0]);
    }
    MergeOrder const order = merge_order(views, {});
    TextDocs docs;
    for (std::size_t i = 0; i < order.source.size(); ++i)
      docs.push_back(held_[first + order.source[i]].docs[order.source_row[i]]);
    held_.resize(first);
    if (!docs.empty()) {
      auto const merged = text_segment_of(
          docs, options_, merge_lexical(lexical, order.source, order.source_row),
          DenseColumn::merge(dense, order.source, order.source_row, 1, options_.first_pass));
      held_.push_back({std::make_shared<SegmentView const>(merged), std::move(docs)});
    }
    changes_.emplace_back();
  }

  Rng rng_;
  WorldOptions options_;
  std::vector<Held> held_;
  std::vector<Change> changes_;
  Seq next_seq_ = 0;
};

}  // namespace hyrecall::testing
