// What a device holds of lexical columns, read back and unpacked: the host's postings, and nothing
// of a segment twice.
#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "engine/dense/on_device.hpp"
#include "engine/segment_columns.hpp"
#include "kernels/cuda/postings.cuh"
#include "kernels/cuda/segment.cuh"
#include "native/corpus.hpp"
#include "native/emulated.hpp"
#include "native/planted.hpp"

namespace hyrecall::testing {
namespace {

template <typename T>
std::vector<T> read_back(T const* from, std::size_t n) {
  std::vector<T> out(n);
  if (n > 0)
    CHECK_EQ(cudaMemcpy(out.data(), from, n * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
  return out;
}

// Of one term, in the order of its list.
struct Posting {
  Row row;
  std::uint32_t term_freq;
  std::uint32_t doc_length;

  friend bool operator==(Posting const&, Posting const&) = default;
};

// A lexical column as a kernel reads it; what cannot be is a failure, whatever the bytes are.
std::vector<std::vector<Posting>> unpacked(LexicalSegment const& held,
                                           LexicalColumn::Parts const& host) {
  auto const lengths = read_back(held.doc_lengths, host.doc_lengths.size());
  auto const ends = read_back(held.posting_offsets, host.posting_offsets.size());
  // A load of 16 bytes from any posting's place lies within the array.
  auto const postings = read_back(held.postings, (ends.back() + 3) / 4 * 4);
  auto const run_ends = read_back(held.run_offsets, host.run_offsets.size());
  auto const runs = read_back(held.runs, host.runs.size());
  auto const escape_ends = read_back(held.escape_offsets, host.escape_offsets.size());
  auto const escapes = read_back(held.escapes, host.escapes.size());
  PostingFormat const format(held.posting_width);
  std::vector<std::vector<Posting>> out(ends.size() - 1);
  for (std::size_t term = 0; term < out.size(); ++term) {
    auto const n = static_cast<std::uint32_t>(ends[term + 1] - ends[term]);
    for (std::uint32_t run = run_ends[term]; run < run_ends[term + 1]; ++run) {
      std::uint32_t const end = run + 1 < run_ends[term + 1] ? runs[run + 1].begin : n;
      for (std::uint32_t i = runs[run].begin; i < end; ++i) {
        std::uint32_t const bits = postings.at(ends[term] + i);
        Row const row = runs[run].tile * kDocTileRows + PostingFormat::row(bits);
        CHECK(row < lengths.size());
        if (format.freq(bits) != format.escape()) {
          CHECK(format.freq(bits) < format.escape());
          out[term].push_back({row, format.freq(bits) + 1, format.length(bits)});
          continue;
        }
        auto const first = escapes.begin() + escape_ends[term];
        auto const last = escapes.begin() + escape_ends[term + 1];
        auto const at = std::find_if(first, last, [&](auto const& e) { return e.row == row; });
        CHECK(at != last);
        out[term].push_back({row, at->term_freq, lengths[row]});
      }
    }
  }
  for (std::size_t i = ends.back(); i < postings.size(); ++i) CHECK_EQ(postings[i], 0u);
  return out;
}

void check_held(LexicalSegment const& held, LexicalColumn const& column) {
  auto const found = unpacked(held, column.parts());
  CHECK_EQ(found.size(), column.n_terms());
  for (TermId term = 0; term < found.size(); ++term) {
    std::vector<Posting> wanted;
    PostingList const list = column.list_of(term);
    list.for_each(0, list.size, [&](Row row, std::uint32_t freq) {
      wanted.push_back({row, freq, column.doc_length(row)});
    });
    CHECK(found[term] == wanted);
  }
  auto const lengths = read_back(held.doc_lengths, column.parts().doc_lengths.size());
  CHECK(std::equal(lengths.begin(), lengths.end(), column.parts().doc_lengths.begin(),
                   column.parts().doc_lengths.end()));
}

// The emulated device's memory is the host's, and its library is built of the same sources.
cuda::DeviceSegmentData const& inside(device::DeviceSegment const& segment) {
  return *static_cast<cuda::DeviceSegmentData const*>(segment.handle());
}

void check_segment(device::DeviceSegment const& on_device, Segment const& segment) {
  cuda::DeviceSegmentData const& held = inside(on_device);
  CHECK_EQ(held.lexical.size(), segment.p.lexical.size());
  for (std::size_t arm = 0; arm < held.lexical.size(); ++arm)
    check_held(held.lexical[arm], *segment.p.lexical[arm]);
}

std::string repeated(std::string const& word, std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += " " + word;
  return text;
}

// Short texts over several tiles, few of whose postings escape.
Documents compact_documents(Rng& rng, std::size_t n_rows) {
  Documents out = random_documents(rng, n_rows, 4, 150);
  for (std::size_t i = 0; i < n_rows; ++i) {
    std::string const word = "w" + std::to_string(rng.below(20));
    std::size_t const way = rng.below(std::size_t{200});
    if (way == 0) out.texts[i] = "other" + repeated(word, 6 + rng.below(std::size_t{4}));
    if (way == 1) out.texts[i] = word + repeated("filler", 253 + rng.below(std::size_t{6}));
  }
  return out;
}

// Long texts, whose postings take four bytes, and some that even these cannot hold.
Documents wide_documents(Rng& rng, std::size_t n_rows) {
  Documents out = random_documents(rng, n_rows, 3, 40);
  for (std::size_t i = 0; i < n_rows; ++i) {
    std::string const word = "w" + std::to_string(rng.below(20));
    out.texts[i] = random_text(rng, 30, 500) + repeated(word, 20 + rng.below(std::size_t{16})) +
                   repeated("filler", 300);
    if (i == n_rows / 2) *out.texts[i] += repeated("filler", 17'000);
  }
  return out;
}

device::DeviceSegment place(Segment const& segment,
                            std::string const& folder = HYRECALL_EMULATED_FOLDER) {
  return device::DeviceSegment(folder, 0, segment.p.seqs.span(), {}, {}, lexical_arrays(segment));
}

std::uint32_t width_of(Segment const& segment) {
  return segment.p.lexical[0]->parts().posting_width;
}

TEST(device_postings_are_those_of_the_host) {
  Rng rng(1);
  std::map<std::uint32_t, std::size_t> n_escapes, n_tiles;
  auto const check = [&](Documents const& documents) {
    auto const segment = segment_of(documents);
    check_segment(place(*segment), *segment);
    n_escapes[width_of(*segment)] += segment->p.lexical[0]->parts().escapes.size();
    n_tiles[width_of(*segment)] += (documents.size() + kDocTileRows - 1) / kDocTileRows;
  };
  check(compact_documents(rng, 20'000));
  for (std::size_t n_rows = 1; n_rows < 12; ++n_rows) check(random_documents(rng, n_rows, 1, 4));
  for (std::size_t n_rows : {2u, 30u, 300u}) check(wide_documents(rng, n_rows));
  check(wide_documents(rng, 9'000));
  for (std::uint32_t width : {PostingFormat::kCompact, PostingFormat::kWide}) {
    CHECK(n_escapes[width] > 20);
    CHECK(n_tiles[width] >= 3);
  }
}

TEST(device_holds_columns_without_postings) {
  Documents documents;
  for (int i = 0; i < 200; ++i) {
    documents.cells.push_back("cell");
    documents.texts.push_back(i % 2 == 0 ? std::optional<std::string>("") : std::nullopt);
    documents.seqs.push_back(i);
  }
  auto const segment = segment_of(documents);
  CHECK_EQ(segment->p.lexical[0]->n_terms(), 0u);
  check_segment(place(*segment), *segment);
}

// The library's own function, with steps that a small column has several of.
TEST(device_postings_are_widened_step_by_step) {
  Rng rng(2);
  auto const segment = segment_of(compact_documents(rng, 3'000));
  CHECK_EQ(width_of(*segment), PostingFormat::kCompact);
  LexicalColumn::Parts const& p = segment->p.lexical[0]->parts();
  LexicalArrays const arrays{
      p.doc_lengths.span(), p.posting_offsets.span(), p.postings.span(), p.run_offsets.span(),
      p.runs.span(),        p.escape_offsets.span(),  p.escapes.span(),  p.posting_width};
  for (std::uint32_t step : {4u, 64u, 1000u, 4096u, 1u << 20}) {
    cuda::DeviceArrays memory;
    check_held(cuda::make_lexical(arrays, memory, step), *segment->p.lexical[0]);
  }
}

TEST(device_segment_says_how_many_bytes_its_postings_take) {
  Rng rng(3);
  for (bool const is_wide : {false, true}) {
    auto const segment =
        segment_of(is_wide ? wide_documents(rng, 200) : compact_documents(rng, 2'000));
    LexicalColumn::Parts const& p = segment->p.lexical[0]->parts();
    std::size_t const n_postings = p.posting_offsets[p.terms.size()];
    std::size_t const wanted = (n_postings + 3) / 4 * 16 + p.doc_lengths.bytes() +
                               p.posting_offsets.bytes() + p.run_offsets.bytes() + p.runs.bytes() +
                               p.escape_offsets.bytes() + p.escapes.bytes() +
                               p.doc_lengths.size() * 8;
    std::size_t const before = emulated().allocated_bytes();
    device::DeviceSegment const on_device = place(*segment);
    CHECK_EQ(on_device.bytes(), wanted);  // with the seqs; no more than it has
    std::size_t const now = emulated().allocated_bytes() - before;
    CHECK(now >= wanted && now <= wanted + 64);  // empty arrays hold a byte
  }
}

TEST(device_memory_comes_back_where_postings_do_not_fit) {
  Rng rng(4);
  auto const segment = segment_of(compact_documents(rng, 1'000));
  std::size_t const before = emulated().allocated_bytes();
  int n_refused = 0;
  for (std::size_t room = 1;; room += 2'000) {
    MemoryOf const limit(before + room);
    bool fits = true;
    try {
      check_segment(place(*segment), *segment);
    } catch (Error const& error) {
      CHECK(error.code() == ErrorCode::kDeviceMemory);
      fits = false;
      n_refused += 1;
    }
    CHECK_EQ(emulated().allocated_bytes(), before);
    if (fits) break;
  }
  CHECK(n_refused > 10);
}

TEST(device_refuses_postings_that_are_not_as_their_offsets_say) {
  Rng rng(5);
  auto const segment = segment_of(random_documents(rng, 100, 1, 30));
  std::vector<std::int64_t> const seqs(segment->p.seqs.begin(), segment->p.seqs.end());
  auto const is_refused = [&](auto&& spoil) {
    std::vector<LexicalArrays> arrays = lexical_arrays(*segment);
    spoil(arrays[0]);
    try {
      device::DeviceSegment const made(HYRECALL_EMULATED_FOLDER, 0, seqs, {}, {}, arrays);
    } catch (Error const& error) {
      CHECK(error.code() == ErrorCode::kInternal);
      return true;
    }
    return false;
  };
  CHECK(!is_refused([](auto&) {}));
  CHECK(is_refused([](auto& a) { a.postings = a.postings.subspan(1); }));
  CHECK(is_refused([](auto& a) { a.runs = a.runs.subspan(1); }));
  CHECK(is_refused([](auto& a) { a.doc_lengths = a.doc_lengths.subspan(1); }));
  CHECK(is_refused([](auto& a) { a.run_offsets = a.run_offsets.subspan(1); }));
  CHECK(is_refused([](auto& a) { a.posting_offsets = {}; }));
  CHECK(is_refused([](auto& a) { a.posting_width = 2; }));
}

// ---- an index that changes

std::vector<std::vector<LexicalArrays>> arrays_of(Snapshot const& snapshot) {
  std::vector<std::vector<LexicalArrays>> out;
  for (auto const& view : snapshot.segments) out.push_back(lexical_arrays(view->segment()));
  return out;
}

std::shared_ptr<DeviceSnapshot const> upload(Snapshot const& snapshot,
                                             DeviceSnapshot const* previous = nullptr) {
  return std::make_shared<DeviceSnapshot>(HYRECALL_EMULATED_FOLDER, 0, snapshot, previous,
                                          std::span<GuestColumn const>{}, arrays_of(snapshot));
}

void check_snapshot(DeviceSnapshot const& on_device, Snapshot const& snapshot) {
  for (std::size_t s = 0; s < snapshot.segments.size(); ++s)
    check_segment(*on_device.view(s).segment(), snapshot.segments[s]->segment());
}

// The live documents of a snapshot as one segment.
std::shared_ptr<Segment const> compacted(Snapshot const& snapshot) {
  std::vector<std::shared_ptr<LexicalColumn const>> sources;
  std::vector<std::uint32_t> source;
  std::vector<Row> rows;
  Segment::Parts parts;
  std::vector<Seq> seqs;
  for (std::uint32_t s = 0; s < snapshot.segments.size(); ++s) {
    SegmentView const& view = *snapshot.segments[s];
    sources.push_back(view.segment().p.lexical[0]);
    for (Row row = 0; row < view.segment().n_rows(); ++row) {
      if (!view.live()[row]) continue;
      source.push_back(s);
      rows.push_back(row);
      seqs.push_back(static_cast<Seq>(seqs.size()));
    }
  }
  std::vector<CellPart> const cells{column_of(std::vector<std::string>(seqs.size(), "cell"))};
  parts.cells = CellDirectory(cells, seqs.size());
  parts.keys = KeyTable(ints_of({seqs.begin(), seqs.end()}), parts.cells);
  parts.seqs = std::move(seqs);
  parts.lexical.push_back(merge_lexical(sources, source, rows));
  return std::make_shared<Segment>(std::move(parts));
}

std::shared_ptr<SegmentView const> without_some(Rng& rng, SegmentView const& view) {
  std::vector<Row> rows;
  for (Row row = 0; row < view.segment().n_rows(); ++row) {
    if (view.live()[row] && rng.below(3) == 0) rows.push_back(row);
  }
  return std::make_shared<SegmentView>(view.without(rows));
}

TEST(device_keeps_postings_through_deletes_and_compaction) {
  Rng rng(6);
  std::size_t const before = emulated().allocated_bytes();
  Snapshot first;
  for (std::size_t n_rows : {9'000u, 500u})
    first.segments.push_back(
        std::make_shared<SegmentView>(segment_of(compact_documents(rng, n_rows))));
  auto on_device = upload(first);
  check_snapshot(*on_device, first);
  std::size_t const held = emulated().allocated_bytes();

  Snapshot second;
  for (auto const& view : first.segments) second.segments.push_back(without_some(rng, *view));
  std::uint64_t const n_launches = emulated().n_launches();
  auto after_delete = upload(second, on_device.get());
  CHECK_EQ(emulated().n_launches(), n_launches);  // nothing is uploaded again
  // Of a delete 16 bytes a tile of live rows, and a table of segments.
  constexpr std::size_t kTable = 1024;
  std::size_t n_tiles = 0;
  for (auto const& view : second.segments)
    n_tiles += (view->segment().n_rows() + kTileRows - 1) / kTileRows;
  CHECK(emulated().allocated_bytes() - held <= 16 * n_tiles + kTable);
  check_snapshot(*after_delete, second);
  for (std::size_t s = 0; s < 2; ++s)
    CHECK(on_device->view(s).segment() == after_delete->view(s).segment());

  Snapshot third;
  third.segments.push_back(std::make_shared<SegmentView>(compacted(second)));
  auto after_compaction = upload(third, after_delete.get());
  check_snapshot(*after_compaction, third);
  on_device = after_delete = nullptr;
  std::size_t const now = emulated().allocated_bytes() - before;
  CHECK(now >= after_compaction->bytes() && now <= after_compaction->bytes() + kTable);
}

TEST(device_uploads_postings_where_a_snapshot_before_had_none) {
  Rng rng(7);
  Snapshot snapshot;
  snapshot.segments.push_back(
      std::make_shared<SegmentView>(segment_of(compact_documents(rng, 300))));
  DeviceSnapshot const bare(HYRECALL_EMULATED_FOLDER, 0, snapshot, nullptr);
  CHECK_EQ(inside(*bare.view(0).segment()).lexical.size(), 0u);
  auto const with = upload(snapshot, &bare);
  check_snapshot(*with, snapshot);
  CHECK(with->bytes() > bare.bytes());
  DeviceSnapshot const bare_again(HYRECALL_EMULATED_FOLDER, 0, snapshot, with.get());
  CHECK_EQ(bare_again.bytes(), bare.bytes());
}

// ---- planted bugs (cmake/planted_bugs.cmake)

bool is_upload_caught(std::string const& folder) {
  Rng rng(8);
  for (int round = 0; round < 10; ++round) {
    auto const segment = segment_of(random_documents(rng, 1 + rng.below(std::size_t{60}), 2, 20));
    try {
      check_segment(place(*segment, folder), *segment);
    } catch (Failure const&) {
      return true;
    }
  }
  return false;
}

TEST(device_planted_bugs_in_postings_are_caught) {
  CHECK(!is_upload_caught(HYRECALL_EMULATED_FOLDER));
  for (char const* const name : {"third_posting_shifted", "last_postings_left_out",
                                 "first_posting_keeps_a_byte_of_the_next"}) {
    CHECK(is_left_out(name) || is_upload_caught(broken_folder(name)));
  }
}

}  // namespace
}  // namespace hyrecall::testing
