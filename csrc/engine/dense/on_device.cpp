#include "engine/dense/on_device.hpp"

#include <deque>

#include "core/error.hpp"
#include "engine/dense/column.hpp"

namespace hyrecall {
namespace {

static_assert(static_cast<int>(DType::kFloat32) == static_cast<int>(RowType::kFloat32) &&
              static_cast<int>(DType::kFloat16) == static_cast<int>(RowType::kFloat16) &&
              static_cast<int>(DType::kBFloat16) == static_cast<int>(RowType::kBFloat16));

RowType type_of(DenseColumn const& column) {
  return static_cast<RowType>(column.dtype);
}

std::shared_ptr<device::DeviceSegment const> upload(std::string const& folder, int ordinal,
                                                    Segment const& segment, std::size_t number,
                                                    std::span<GuestColumn const> guests,
                                                    std::span<LexicalArrays const> lexical) {
  segment.check();  // since all blocks are copied
  std::vector<AttributeArrays> attributes;
  for (auto const& column : segment.p.attributes) {
    attributes.push_back({column->codes.span(), column->offsets.span(), column->valid.span(),
                          column->zones().span()});
  }
  std::vector<device::ColumnArrays> columns;
  std::deque<SparseArrays> sparse;  // where they stay
  for (auto const& column : segment.p.dense) {
    device::ColumnArrays& made = columns.emplace_back(device::ColumnArrays{
        type_of(*column), column->dim, column->rows.data(), column->inverse_norms.data()});
    made.begins = column->begins.span();
    if (column->sparse == nullptr) continue;
    SparseColumn const& own = *column->sparse;
    sparse.push_back({own.run_pages.span(), own.run_begins.span(), own.rows.span(),
                      own.weights.span(), own.sizes.span(), own.is_half});
    made.sparse = &sparse.back();
  }
  for (GuestColumn const& one : guests) {
    if (one.segment != number) continue;
    columns.at(one.column).guest = &one.guest;
    columns.at(one.column).order = one.order;
  }
  return std::make_shared<device::DeviceSegment>(folder, ordinal, segment.p.seqs.span(), attributes,
                                                 columns, lexical);
}

std::vector<std::uint64_t> live_words(SegmentView const& view) {
  std::vector<std::uint64_t> words;
  if (view.n_dead() == 0) return words;
  std::size_t const n_tiles = (view.segment().n_rows() + kTileRows - 1) / kTileRows;
  for (std::size_t tile = 0; tile < n_tiles; ++tile) {
    TileMask const mask = view.live().tile(tile);
    words.push_back(mask.low);
    words.push_back(mask.high);
  }
  return words;
}

}  // namespace

DeviceSnapshot::DeviceSnapshot(std::string const& folder, int ordinal, Snapshot const& snapshot,
                               DeviceSnapshot const* previous, std::span<GuestColumn const> guests,
                               std::span<std::vector<LexicalArrays> const> lexical) {
  if (snapshot.segments.empty()) return;
  require(lexical.empty() || lexical.size() == snapshot.segments.size(),
          "lexical columns of every segment");
  std::vector<std::shared_ptr<device::DeviceView const>> views;
  for (std::size_t number = 0; number < snapshot.segments.size(); ++number) {
    auto const& view = snapshot.segments[number];
    std::shared_ptr<device::DeviceView const> on_device;
    std::shared_ptr<device::DeviceSegment const> segment;
    std::span<LexicalArrays const> texts;
    if (!lexical.empty()) texts = lexical[number];
    for (std::size_t i = 0; previous != nullptr && i < previous->held_.size(); ++i) {
      Held const& old = previous->held_[i];
      if (old.on_device->segment()->n_lexical() != texts.size()) continue;
      if (old.view == view) on_device = old.on_device;
      if (old.view->shared_segment() == view->shared_segment()) segment = old.on_device->segment();
    }
    if (on_device == nullptr) {
      if (segment == nullptr)
        segment = upload(folder, ordinal, view->segment(), number, guests, texts);
      on_device = std::make_shared<device::DeviceView>(std::move(segment), live_words(*view));
    }
    views.push_back(on_device);
    held_.push_back({view, std::move(on_device)});
  }
  auto const& columns = snapshot.segments.front()->segment().p.dense;
  for (std::uint32_t i = 0; i < columns.size(); ++i) {
    tables_.push_back(
        std::make_shared<device::DeviceTable>(views, i, type_of(*columns[i]), columns[i]->dim));
  }
  std::size_t const n_lexical = lexical.empty() ? 0 : lexical.front().size();
  for (std::uint32_t i = 0; i < n_lexical; ++i)
    lexical_tables_.push_back(std::make_shared<device::DeviceTable>(views, i));
}

std::optional<std::pair<std::string, int>> DeviceSnapshot::place() const {
  if (tables_.empty()) return std::nullopt;
  return std::pair{tables_.front()->folder(), tables_.front()->ordinal()};
}

std::uint64_t DeviceSnapshot::bytes() const {
  std::uint64_t total = 0;
  for (Held const& one : held_) total += one.on_device->segment()->bytes();
  return total;
}

DenseArm::DenseArm(Snapshot const& snapshot, BatchRequest const& request, DenseRequest const& arm,
                   ResolvedScopes const& scopes, QueryGroups const& groups,
                   std::span<std::uint32_t const> only)
    : arm_(arm),
      search_(snapshot.device->dense_table(arm.column), snapshot, request, arm.floor, scopes,
              groups, only) {
  std::size_t const end = arm.begin + request.n_queries;
  if (arm.guest != nullptr && !arm.guest->has(arm.begin, end)) {
    guests_.emplace(*arm.guest, arm.begin, end);
    return;
  }
  for (std::size_t q = 0; q < request.n_queries; ++q)
    if (!arm.has(q)) search_.group_of()[q] = kNone32;
  if (arm.sparse != nullptr) add_sparse(snapshot, request.n_queries);
  if (arm.bundles == nullptr) return;
  std::size_t const dim = arm.queries->dim();
  vector_begins_.push_back(0);
  for (std::size_t q = 0; q < request.n_queries; ++q) {
    for (DenseQuery const& one : arm.bundle(q))
      vectors_.insert(vectors_.end(), one.padded.data(), one.padded.data() + dim);
    vector_begins_.push_back(static_cast<std::uint32_t>(vectors_.size() / dim));
  }
}

void DenseArm::add_sparse(Snapshot const& snapshot, std::size_t n_queries) {
  vector_begins_.assign(n_queries + 1, 0);
  sparse_begins_.push_back(0);
  for (std::size_t q = 0; q < n_queries; ++q) {
    for (auto const& view : snapshot.segments) {
      SparseColumn const& column = *view->segment().p.dense[arm_.column]->sparse;
      for (HeldTerm const& one : column.held((*arm_.sparse)[arm_.begin + q])) {
        sparse_runs_.push_back({static_cast<std::uint32_t>(column.term_runs[one.number]),
                                static_cast<std::uint32_t>(column.term_runs[one.number + 1]),
                                one.weight});
      }
      sparse_begins_.push_back(static_cast<std::uint32_t>(sparse_runs_.size()));
    }
  }
}

device::DenseSearch DenseArm::batch() const {
  device::DenseSearch out = search_.batch();
  if (guests_) {
    out.guest = &guests_->wanted();
  } else if (!vector_begins_.empty()) {
    out.queries = {vectors_.data(), arm_.sparse != nullptr ? 0 : arm_.queries->dim()};
    out.vector_begins = vector_begins_;
    out.sparse = {sparse_begins_, sparse_runs_};
  } else {
    DenseQueries const& all = arm_.guest != nullptr ? arm_.guest->all() : *arm_.queries;
    out.queries = {all.first_row() + arm_.begin * all.stride(), all.stride()};
  }
  return out;
}

void DenseArm::accept() {
  if (guests_) guests_->accept();
}

void DenseArm::run(QueryLists& lists, ListTaker* taker) {
  search_.run(batch(), lists, taker);
  accept();
}

}  // namespace hyrecall
