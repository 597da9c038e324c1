// The twelve arrays of a saved lexical column, mutated one at a time; what check() lets pass is
// read in every way. Input: 'L', width, then for each array u32 size (in bytes), bytes.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "engine/lexical/check.hpp"
#include "engine/recall.hpp"
#include "fuzz/native/fuzz.hpp"
#include "native/corpus.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t*, std::size_t, std::size_t);
using namespace hyrecall;
using namespace hyrecall::fuzzing;

namespace {
using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t kArrays = 11;
constexpr std::size_t kUnit[kArrays] = {4, 8, 1, 8, 1, 4, 8, 4, 8, 8, 1};
struct Image {
  std::uint8_t width = 3;
  Bytes arrays[kArrays];
};

bool parse(std::uint8_t const* data, std::size_t size, Image& out) {
  if (size < 2 || data[0] != 'L') return false;
  out.width = data[1];
  std::size_t at = 2;
  for (auto& a : out.arrays) {
    if (size - at < 4) return false;
    std::uint32_t n;
    std::memcpy(&n, data + at, 4);
    at += 4;
    if (size - at < n) return false;
    a.assign(data + at, data + at + n);
    at += n;
  }
  return true;
}
Bytes dump(Image const& image) {
  Bytes out{'L', image.width};
  for (auto const& a : image.arrays) {
    auto const n = static_cast<std::uint32_t>(a.size());
    auto const* p = reinterpret_cast<std::uint8_t const*>(&n);
    out.insert(out.end(), p, p + 4);
    out.insert(out.end(), a.begin(), a.end());
  }
  return out;
}
// A buffer of its own, exactly as long.
template <typename T>
Buffer<T> buffer_of(Bytes const& bytes) {
  std::size_t const n = bytes.size() / sizeof(T);
  std::shared_ptr<T[]> own(new T[n]);
  if (n > 0) std::memcpy(static_cast<void*>(own.get()), bytes.data(), n * sizeof(T));
  return {own.get(), n, own};
}
template <typename B>
Bytes bytes_of(B const& b) {
  Bytes out(b.bytes());
  if (!out.empty()) std::memcpy(out.data(), b.data(), out.size());
  return out;
}
Image image_of(LexicalColumn const& column) {
  auto const& p = column.parts();
  auto const wide = p.forward_offsets.wide();
  Bytes forward(wide.size() * 8);
  std::memcpy(forward.data(), wide.data(), forward.size());
  Image out;
  out.width = static_cast<std::uint8_t>(p.posting_width);
  Bytes* a = out.arrays;
  a[0] = bytes_of(p.doc_lengths);
  a[1] = bytes_of(p.terms.offsets);
  a[2] = bytes_of(p.terms.bytes);
  a[3] = bytes_of(p.posting_offsets);
  a[4] = bytes_of(p.postings);
  a[5] = bytes_of(p.run_offsets);
  a[6] = bytes_of(p.runs);
  a[7] = bytes_of(p.escape_offsets);
  a[8] = bytes_of(p.escapes);
  a[9] = forward;
  a[10] = bytes_of(p.forward_bytes);
  return out;
}
std::shared_ptr<LexicalColumn> column_of(Image const& image, bool is_mapped) {
  LexicalColumn::Parts p;
  Bytes const* a = image.arrays;
  p.name = "text";
  p.doc_lengths = buffer_of<std::uint32_t>(a[0]);
  p.terms = {buffer_of<std::int64_t>(a[1]), buffer_of<std::uint8_t>(a[2])};
  p.posting_offsets = buffer_of<std::uint64_t>(a[3]);
  p.posting_width = image.width;
  p.postings = buffer_of<std::uint8_t>(a[4]);
  p.run_offsets = buffer_of<std::uint32_t>(a[5]);
  p.runs = buffer_of<PostingRun>(a[6]);
  p.escape_offsets = buffer_of<std::uint32_t>(a[7]);
  p.escapes = buffer_of<PostingEscape>(a[8]);
  p.forward_bytes = buffer_of<std::uint8_t>(a[10]);
  return std::make_shared<LexicalColumn>(std::move(p), buffer_of<std::uint64_t>(a[9]), is_mapped);
}
std::vector<Bytes> const& seeds() {
  static std::vector<Bytes> const all = [] {
    std::vector<Bytes> out;
    testing::Rng rng(5);
    for (int kind = 0; kind < 6; ++kind) {
      testing::Documents docs;
      std::size_t const n = kind == 0   ? 2
                            : kind == 1 ? 5
                            : kind == 2 ? 12
                            : kind == 3 ? 40
                            : kind == 4 ? 3
                                        : 9000;
      docs = testing::random_documents(rng, n, 2, kind == 5 ? 3 : 8);
      if (kind == 4) {  // long, and often the same: escapes and four bytes
        std::string text;
        for (int i = 0; i < 300; ++i) text += i % 3 == 0 ? "w1 " : "w2 ";
        docs.texts[0] = text;
        docs.texts[1] = "w1 é w2";
      }
      out.push_back(dump(image_of(*testing::lexical_of(docs))));
    }
    return out;
  }();
  return all;
}
void recall(std::shared_ptr<LexicalColumn const> column) {
  std::size_t const n = column->n_rows();
  if (n == 0 || n > 20000) return;
  std::vector<std::string> cells(n, "c");
  std::vector<Seq> seqs(n);
  std::vector<std::int64_t> keys(n);
  for (std::size_t i = 0; i < n; ++i) {
    seqs[i] = static_cast<Seq>(i);
    keys[i] = static_cast<std::int64_t>(i);
  }
  Segment::Parts parts;
  parts.seqs = seqs;
  std::vector<CellPart> const cell_parts{testing::column_of(cells)};
  parts.cells = CellDirectory(cell_parts, n);
  parts.keys = KeyTable(testing::ints_of(keys), parts.cells);
  parts.lexical.push_back(column);
  SegmentView view(std::make_shared<Segment>(std::move(parts)));
  Snapshot snapshot;
  if (n > 2) {
    std::vector<Row> const dead{1};
    snapshot.segments.push_back(std::make_shared<SegmentView const>(view.without(dead)));
  } else
    snapshot.segments.push_back(std::make_shared<SegmentView const>(std::move(view)));
  BatchRequest request;
  std::vector<TextQuery> queries{
      TextQuery::of_text("w0 w1 w2"), TextQuery::phrase("w0 w1", 0), TextQuery::phrase("w1 w2", 3),
      TextQuery::prefix("w", 0),
      TextQuery::all({TextQuery::of_text("w1"), TextQuery::prefix("w0", 0)})};
  request.n_queries = queries.size();
  Scope scope;
  scope.cells.push_back(testing::encoded("c"));
  request.scopes.push_back(std::make_shared<Scope const>(std::move(scope)));
  request.scope_of.assign(queries.size(), 0);
  request.filter_of.assign(queries.size(), kNone32);
  LexicalRequest arm;
  arm.name = "text";
  arm.analyzer = testing::word_analyzer();
  for (auto& q : queries) arm.queries.emplace_back(std::move(q));
  request.add(std::move(arm));
  Fusion fusion;
  fusion.weights = {1.0};
  fusion.scales = {Fusion::Scale::kNone};
  request.set_fusion(fusion, {}, false);
  Execution const execution(snapshot, request);
  auto const reply = execution.hits(execution.statistics()).arrays;
  REQUIRE(reply.offsets.size() == request.n_queries + 1);
  for (Row row : reply.row) REQUIRE(row < n);
}
}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max, unsigned seed) {
  testing::Rng rng(seed);
  Image image;
  if (!parse(data, size, image) || rng.below(200) == 0) {
    auto const& s = seeds()[rng.below(std::size_t{5})];
    if (!parse(s.data(), s.size(), image)) return 0;
  }
  for (int rounds = 1 + rng.below(3); rounds > 0; --rounds) {
    if (rng.below(60) == 0) {
      image.width = static_cast<std::uint8_t>(rng.below(6));
      continue;
    }
    Bytes& a = image.arrays[rng.below(kArrays)];
    std::size_t const unit = kUnit[&a - image.arrays];
    int const how = rng.below(6);
    if (how == 0 || a.size() < unit) {
      std::size_t const n = a.size();
      a.resize(n + 64);
      a.resize(LLVMFuzzerMutate(a.data(), n, n + 64));
    } else {
      std::size_t const at = rng.below(a.size() / unit) * unit;
      std::int64_t value = 0;
      std::memcpy(&value, a.data() + at, unit);
      if (how == 1)
        value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) +
                                          rng.below(std::uint64_t{5}) - 2);
      else if (how == 2) {
        std::size_t const other = rng.below(a.size() / unit) * unit;
        std::memcpy(&value, a.data() + other, unit);
      } else if (how == 3) {
        std::int64_t const odd[] = {0,          -1,         1,          INT64_MIN, INT64_MAX,
                                    0xffffffff, 0x80000000, 0x7fffffff, 0x80,      127,
                                    8192,       8191,       1 << 13};
        value = odd[rng.below(std::size_t{13})];
      } else if (how == 4)
        value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) ^
                                          std::uint64_t{1} << rng.below(unit * 8));
      else {
        if (rng.below(2) == 0) {
          a.erase(a.begin() + static_cast<long>(at), a.begin() + static_cast<long>(at + unit));
          continue;
        }
        Bytes const copy(a.begin() + static_cast<long>(at),
                         a.begin() + static_cast<long>(at + unit));
        a.insert(a.begin() + static_cast<long>(at), copy.begin(), copy.end());
        continue;
      }
      std::memcpy(a.data() + at, &value, unit);
    }
  }
  Bytes const out = dump(image);
  if (out.size() > max) return size;
  std::memcpy(data, out.data(), out.size());
  return out.size();
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  Image image;
  if (!parse(data, size, image)) return 0;
  std::shared_ptr<LexicalColumn> column;
  try {
    column = column_of(image, size % 2 == 0);
    column->check(1);
  } catch (Error const&) {
    return 0;
  }
  std::size_t const n = column->n_rows();
  std::vector<Row> rows;
  for (Row r = 0; r < n && r < 9000; ++r) rows.push_back(r);
  std::vector<std::uint32_t> positions;
  for (TermId t = 0; t < column->n_terms(); ++t) {
    PostingList const list = column->list_of(t);
    std::uint32_t count = 0;
    list.for_each(0, list.size, [&](Row row, std::uint32_t freq) {
      REQUIRE(row < n);
      REQUIRE(list.freq_of(row) == freq);
      count += is_planted() && freq > 150 ? 2 : 1;
    });
    REQUIRE(count == list.size);
    std::uint32_t in_range = 0, in_rows = 0;
    if (n > 0) list.for_range(0, static_cast<Row>(n - 1), [&](Row, std::uint32_t) { ++in_range; });
    list.for_rows(rows, [&](std::size_t, std::uint32_t) { ++in_rows; });
    REQUIRE(in_range == list.size && (n > 9000 || in_rows == list.size));
    (void)column->frequencies_of(t);
    (void)column->find(column->parts().terms[t]);
    if (t > 300) break;
  }
  (void)column->with_prefix("w");
  for (Row row : rows) {
    if (row > 200) break;
    auto const terms = column->distinct_terms(row);
    std::set<std::uint32_t> places;
    for (TermId t : terms) {
      REQUIRE(t < column->n_terms());
      column->positions(row, t, positions);
      REQUIRE(column->term_freq(row, t) == positions.size());
      REQUIRE(column->list_of(t).freq_of(row) == positions.size());
      places.insert(positions.begin(), positions.end());
    }
    column->places(row, terms, positions);
    REQUIRE(std::ranges::equal(positions, places));
  }
  std::shared_ptr<LexicalColumn const> const sound = column;
  try {
    if (n > 0 && n < 20000) {
      std::vector<std::shared_ptr<LexicalColumn const>> const from{sound, sound};
      std::vector<std::uint32_t> source;
      std::vector<Row> row;
      for (Row r = 0; r < n; ++r) {
        source.push_back(r % 2);
        row.push_back(static_cast<Row>(n - 1 - r));
      }
      auto const merged = merge_lexical(from, source, row);
      REQUIRE(merged->n_rows() == n);
    }
    recall(sound);
  } catch (Error const& e) {
    if (says()) std::fprintf(stderr, "%s\n", e.what());
  }
  return 0;
}

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {  // --seeds=FOLDER writes the real columns
    std::string const arg = (*argv)[i];
    if (!arg.starts_with("--seeds=")) continue;
    for (std::size_t s = 0; s < seeds().size(); ++s) {
      FILE* f = std::fopen((arg.substr(8) + "/seed" + std::to_string(s)).c_str(), "wb");
      std::fwrite(seeds()[s].data(), 1, seeds()[s].size(), f);
      std::fclose(f);
    }
    std::exit(0);
  }
  return 0;
}
