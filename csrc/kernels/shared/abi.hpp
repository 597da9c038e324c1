// The border of libhyrecall_cuda: one exported function, hyrecall_cuda_api(), that gives a table of
// C functions. No CUDA type crosses it, so that the host side needs no CUDA header.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/int8_bound.hpp"
#include "kernels/kernel_choice.hpp"
#include "kernels/shared/dense_batch.hpp"
#include "kernels/shared/dense_rows.hpp"
#include "kernels/shared/guest_tensor.hpp"
#include "kernels/shared/lexical_job.hpp"
#include "kernels/shared/pool_job.hpp"
#include "kernels/shared/postings.hpp"
#include "kernels/shared/shape_job.hpp"
#include "kernels/shared/sparse_job.hpp"
#include "kernels/shared/tile_filter.hpp"

namespace hyrecall::cuda {

// Raise it whenever anything in this file, in kernels/shared/dense_batch.hpp,
// kernels/shared/guest_tensor.hpp, kernels/shared/lexical_job.hpp, kernels/shared/pool_job.hpp,
// kernels/shared/postings.hpp, kernels/shared/shape_job.hpp, kernels/shared/sparse_job.hpp,
// kernels/shared/tile_filter.hpp, kernels/kernel_choice.hpp or the numbers of ArithmeticOp change.
inline constexpr std::int32_t kAbiVersion = 23;
inline constexpr int kMaxDevices = 64;

// What a handle stands for: known to the library alone.
struct Object;

// What a call says of itself: code 0 is success, above 0 a cudaError_t, below 0 one of these; and
// its text.
inline constexpr std::int32_t kHostMemory = -1;
inline constexpr std::int32_t kInternalFault = -2;
struct Status {
  std::int32_t code;
  char text[252];
};

struct DeviceProperties {
  char name[256];
  std::int32_t major;  // compute capability
  std::int32_t minor;
  std::uint64_t memory_bytes;
  std::int32_t n_multiprocessors;
  std::int32_t reserved;
};

struct DeviceTable {
  std::int32_t driver_version;   // 1000 x major + 10 x minor; 0 = no driver
  std::int32_t runtime_version;  // of the library, same form
  std::int32_t n_devices;
  std::int32_t reserved;
  DeviceProperties devices[kMaxDevices];
};

// results[i] = formula `op` of arguments[i * kMaxArity ...]; see kernels/shared/arithmetic_op.hpp.
struct FormulaParams {
  double const* arguments;  // [n, kMaxArity] host
  double* results;          // [n]            host, out
  std::int64_t n;
  std::int32_t op;      // ArithmeticOp
  std::int32_t device;  // ordinal
};

// dots[i] = canonical dot of the query and row i; inverse_norms[i] = that of row i, 0 for a zero
// row.
struct DotParams {
  float const* query;    // [dim]          host
  float const* rows;     // [n_rows, dim]  host
  float* dots;           // [n_rows]       host, out
  float* inverse_norms;  // [n_rows]       host, out
  std::int64_t n_rows;
  std::int64_t dim;
  std::int32_t device;
};

// One dense column of a segment.
struct ColumnParams {
  RowType type;
  std::uint32_t dim;
  std::uint8_t const* rows;    // [n_rows, dim] of type
  float const* inverse_norms;  // [n_rows], 0: no vector
  Object* gate;                // of create_gate; not null: rows come from this tensor instead
  GuestTensor guest;
  std::uint32_t const* order;  // [n_rows] which of the tensor's rows each is, host
  // [n_rows + 1] of rows of many vectors: which each has; then rows and norms above are of vectors.
  // Null: each row has one.
  std::uint32_t const* begins;
  // Set: the rows are sparse, and all of the above but the type is empty.
  SparseArrays const* sparse;
};

struct SegmentParams {
  std::int32_t device;
  std::uint32_t n_rows;
  std::int64_t const* seqs;  // [n_rows]
  std::span<AttributeArrays const> attributes;
  std::span<ColumnParams const> columns;
  std::span<LexicalArrays const> lexical;
};

// A segment as one snapshot sees it.
struct ViewParams {
  Object* segment;
  std::uint64_t const* live;  // [2 * n_tiles]; null: every row lives
};

// One column of all segments of a snapshot. The views must outlive it. Segments of a lexical column
// begin at document tiles.
struct TableParams {
  std::int32_t device;
  std::uint32_t column;  // of the dense or of the lexical ones
  std::uint32_t is_lexical;
  std::span<Object* const> views;
  float* greatest_residual;  // of any row in the int8 plane, out
};

// Queries that lie on the device already. Values and readings come back with the results.
struct GuestParams {
  Object* gate;  // of create_gate; null: there are none
  GuestTensor tensor;
  std::uint32_t const* rows;  // [n_queries] which of the tensor's rows each query is, host
  float* const* values;       // [n_queries] where to write its [dim] float32
  GuestReading* readings;     // [n_queries] out
};

// Queries in host memory.
struct QueryParams {
  // Writes [n_queries, dim], or all vectors of queries of many, where the device reads them: the
  // only copy on their way. Called once, throws nothing.
  void (*write)(void* context, float* to);
  void* context;
};

// What a search found, in memory that is the library's again once it has been taken.
struct SearchResults {
  std::uint32_t const* counts;     // [n_queries]
  float const* scores;             // [n_queries, depth]
  std::int64_t const* seqs;        // likewise
  std::uint32_t const* slots;      // likewise; sorted up to kMostSorted rows
  std::uint32_t const* overflows;  // [n_queries] 1 = the answer is not whole
  float const* thresholds;         // [n_queries] no row of a lower score belongs to it
};

// How long the device took for one launch of a search, or for a copy.
struct KernelTime {
  char const* name;     // of the kernel; the library's
  std::uint32_t width;  // of a scan: queries that it takes together; else 0
  float milliseconds;
};
struct KernelTimes {
  KernelTime all[32];
  std::uint32_t n;
};

// A batch on a table: see kernels/shared/dense_job.hpp for what the arrays mean.
struct SearchParams {
  Object* table;
  DenseBatch batch;  // pointers into host memory
  std::uint64_t n_ranges;
  std::uint64_t n_groups;
  std::uint64_t n_runs;
  std::uint64_t n_panel_queries;
  std::uint64_t n_panel_groups;
  std::span<SegmentFilter const> filters;  // [n_filters, n_segments]
  std::span<TileTest const> tests;
  std::span<std::int64_t const> codes;
  TextQueries text;
  QueryParams queries;  // unless there is a guest or a text
  GuestParams guest;
  // [n_queries + 1] of queries of many vectors: which each has; empty: each has one.
  std::span<std::uint32_t const> vector_begins;
  SparseTerms sparse;           // of sparse queries, which have no vectors; empty: they are not
  float const* floors;          // [n_queries]
  std::uint8_t const* strict;   // [n_queries]
  std::uint32_t const* depths;  // [n_queries] at most depth
  std::uint32_t depth;
  std::uint32_t capacity;
  std::uint32_t room;          // at least capacity
  std::uint32_t most_entries;  // of a query: candidates, or rows where it reads all of them first
  std::uint32_t most_samples;  // of a query
  std::uint32_t wide_queries;  // that a wide panel holds; 0: there are none
  FirstPassPlane plane;
  KernelChoice kernels;  // as in the call of scans() that the batch was planned with

  // [n_queries, room] out: candidate_key of each, as the first pass found them; then nothing else
  // is. Null: unasked.
  std::uint64_t* candidates;
  // Out, null: unasked. The kernels are launched one by one then, not as a recorded sequence.
  KernelTimes* times;
  // Called once, when all else is written; throws nothing.
  void (*take)(void* context, SearchResults const& results);
  void* context;
};

// Rows of a tensor on the device, brought to the host.
struct ReadParams {
  std::int32_t device;
  std::uint32_t n;
  GuestParams guest;  // [n]
};

// The lists of an arm: what a search finds, or host memory. See kernels/shared/pool_job.hpp for
// what the arrays mean.
struct PoolArmParams {
  PoolArmKind kind;
  SearchParams const* search;    // whose take and context are not read; null: the lists are here
  std::uint32_t const* queries;  // [search->batch.n_queries] which of the batch each is
  std::uint32_t const* places;   // [n_queries] the other way; kNone32: it is not searched for
  std::uint8_t const* asks;      // [n_queries]
  std::uint32_t depth;
  std::uint32_t has_floor;

  PoolArrays lists;  // of a search only `begins`
};

struct PoolParams {
  std::int32_t device;
  std::uint32_t n_queries;
  std::span<PoolArmParams const> arms;
  PoolFusion fusion;
  KernelTimes* times;  // as in SearchParams
  // Called once, when all else is written; throws nothing.
  void (*take)(void* context, PoolResults const& results);
  void* context;
};

// Lists, and who takes what a stage makes of them.
struct ShapeParams {
  Object* table;  // of a dense column
  ShapeBatch batch;
  // Called once, when all else is written; throws nothing.
  void (*take)(void* context, ShapeResults const& results);
  void* context;
};

// An array of the host, and where it goes in a block.
struct BlockPart {
  void const* from;
  std::uint64_t bytes;
  std::uint64_t begin;  // byte of the block
};

// Memory on a device that its caller keeps: the arrays of a reply. They are read before the call
// returns; their copy is only begun then.
struct BlockParams {
  std::int32_t device;
  std::uint64_t bytes;
  std::span<BlockPart const> parts;
};

struct Api {
  std::int32_t abi_version;  // first, so that any version can read it
  std::int32_t reserved;
  Status (*describe)(DeviceTable* out);
  Status (*formulas)(FormulaParams const* params);
  Status (*dots)(DotParams const* params);
  Status (*create_segment)(SegmentParams const* params, Object** out);
  Status (*create_view)(ViewParams const* params, Object** out);
  Status (*create_table)(TableParams const* params, Object** out);
  // Ends what a function of this table has made, on any thread, also while the process ends. Null
  // is nothing.
  void (*destroy)(Object* object);
  std::uint64_t (*segment_bytes)(Object const* segment);  // of device memory
  // What scans the device may run on a plane, by rising width; gives how many, at most kMaxScans.
  Status (*scans)(std::int32_t device, FirstPassPlane plane, KernelChoice kernels, ScanVariant* out,
                  std::uint32_t* n);
  // Any number of threads at once. Nothing is lost if it fails.
  Status (*search)(SearchParams const* params);
  // A gate has a stream of ours, on which the producer of a tensor lets us wait for it: gives the
  // stream's handle. For one tensor at a time.
  Status (*create_gate)(std::int32_t device, Object** out, std::uint64_t* stream);
  Status (*read_guest)(ReadParams const* params);
  // The searches of several arms and what their lists become, in one submission. Likewise.
  Status (*run_pool)(PoolParams const* params);
  // Any number of threads at once.
  Status (*shape_lists)(ShapeParams const* params);
  // Gives the block and where it begins. Its bytes may be read on a stream that has waited for it;
  // destroying it waits for what still reads them.
  Status (*create_block)(BlockParams const* params, Object** out, void** data);
  // What comes on a caller's stream from now on waits for the block, and the caller does not. A
  // stream is a handle, or 1 or 2 for the default streams, as __dlpack__ takes it.
  Status (*wait_for_block)(Object const* block, std::uint64_t stream);
};

}  // namespace hyrecall::cuda

// Signature of the exported function.
using HyrecallCudaApi = hyrecall::cuda::Api const*();
inline constexpr char const* kHyrecallCudaApiName = "hyrecall_cuda_api";
