// The kernels of a search in their order: launched one by one, or recorded once and replayed.
#pragma once

#include "kernels/cuda/scan_launch.cuh"
#include "kernels/cuda/timer.cuh"
#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {

// What the recording of a search depends on; number: of its job in the call.
GraphKey graph_key(SearchParams const& params, std::uint32_t number = 0);

// Launches the kernels of a job that the workspace's input holds; a timer, where there is one,
// hears of each.
void run_sequence(Workspace& workspace, GraphKey const& key, Scanner const& scanner,
                  cudaStream_t stream, KernelTimer* timer);
// The same as a recording of the workspace, which is made if there is none yet.
cudaGraphExec_t recorded_sequence(Workspace& workspace, GraphKey const& key,
                                  Scanner const& scanner);

}  // namespace hyrecall::cuda
