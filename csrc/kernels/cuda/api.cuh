// The functions of the library's table, which abi.hpp describes, and what they ask of each other.
#pragma once

#include <cuda_runtime.h>

#include "kernels/shared/abi.hpp"

namespace hyrecall::cuda {

Status run_formulas(FormulaParams const* params);
Status run_dots(DotParams const* params);
Status create_segment(SegmentParams const* params, Object** out);
Status create_view(ViewParams const* params, Object** out);
Status create_table(TableParams const* params, Object** out);
std::uint64_t segment_bytes(Object const* segment);
void destroy(Object* object);
Status scans(std::int32_t device, FirstPassPlane plane, KernelChoice kernels, ScanVariant* out,
             std::uint32_t* n);
Status search(SearchParams const* params);
Status create_gate(std::int32_t device, Object** out, std::uint64_t* stream);
Status read_guest(ReadParams const* params);
Status run_pool(PoolParams const* params);
Status shape_lists(ShapeParams const* params);
Status create_block(BlockParams const* params, Object** out, void** data);
Status wait_for_block(Object const* block, std::uint64_t stream);

// What comes on the stream from now on finds a tensor as its producer left it.
void wait_for_guest(Object const* gate, cudaStream_t stream);

}  // namespace hyrecall::cuda
