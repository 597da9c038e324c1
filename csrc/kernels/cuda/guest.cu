// What:   queries from a tensor of another library, read where it lies once its producer's stream
//         has made it.
// In/Out: DenseJob: guest, guest_rows; guest_values as float32, readings.
// Launch: take_queries: a warp a query.
// Cost:   the tensor's rows once; of no account.
// Oracle: guest_value of kernels/shared/guest_tensor.hpp on the host, bit for bit.
#include <cstring>
#include <vector>

#include "kernels/cuda/api.cuh"
#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/status.cuh"
#include "kernels/cuda/warp_math.cuh"

namespace hyrecall::cuda {

// A row that no query may be becomes 0, which finds nothing: the host refuses it by its reading.
__global__ void __launch_bounds__(kQueryThreads) take_queries(DenseJob const* job_at) {
  begin_behind();
  DenseJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x * (kQueryThreads / kLanes) + threadIdx.x / kLanes;
  if (query >= job.batch.n_queries) return;  // the whole warp
  GuestTensor const guest = job.guest;
  std::uint32_t const row = job.guest_rows[query];
  float* const values = job.guest_values + std::size_t{query} * job.dim;
  std::uint32_t bad = job.dim;
  for (std::uint32_t i = lane_id(); i < job.dim; i += kLanes) {
    float const value = static_cast<float>(guest_value(guest, row, i));
    values[i] = value;
    if (bad == job.dim && !is_finite_float(value)) bad = i;
  }
  for (unsigned width = kLanes / 2; width >= 1; width /= 2) {
    std::uint32_t const other = shuffle_down(bad, width);
    bad = other < bad ? other : bad;
  }
  bad = shuffle(bad, 0);
  // A lane reads what it wrote itself.
  double const norm =
      norm_by_warp(job.dim, [values](std::uint32_t i) { return double{values[i]}; });
  bool const is_query = bad == job.dim && is_norm(norm);
  for (std::uint32_t i = lane_id(); !is_query && i < job.dim; i += kLanes) values[i] = 0.0f;
  if (lane_id() == 0)
    job.readings[query] = {bad == job.dim ? norm : guest_value(guest, row, bad), bad};
}

namespace {

struct GateStream {
  Stream stream = make_stream();
  Event ready = make_event();
};

// A stream that is lent for one tensor: making one takes longer than a small search.
struct Gate : Object {
  explicit Gate(int ordinal) : Object(ordinal), own(one_of<Idle<GateStream>>(ordinal).take()) {}
  ~Gate() override { one_of<Idle<GateStream>>(device).give_back(std::move(own)); }

  std::unique_ptr<GateStream> own;
};

}  // namespace

void wait_for_guest(Object const* gate, cudaStream_t stream) {
  GateStream const& held = *static_cast<Gate const&>(*gate).own;
  check(cudaEventRecord(held.ready.get(), held.stream.get()));
  check(cudaStreamWaitEvent(stream, held.ready.get()));
}

Status create_gate(std::int32_t device, Object** out, std::uint64_t* stream) {
  return guarded([&] {
    DeviceScope const device_scope(device);
    auto gate = std::make_unique<Gate>(device);
    *stream = reinterpret_cast<std::uint64_t>(gate->own->stream.get());
    *out = gate.release();
  });
}

Status read_guest(ReadParams const* params) {
  return guarded([&] {
    GuestParams const& from = params->guest;
    std::size_t const dim = from.tensor.dim;
    if (params->n == 0) return;
    DeviceScope const device_scope(params->device);
    cudaStream_t const stream = static_cast<Gate const&>(*from.gate).own->stream.get();
    DeviceArray<std::uint32_t> const rows(from.rows, params->n);
    DeviceArray<float> const values(params->n * dim);
    DeviceArray<GuestReading> const readings(params->n);
    DenseJob job{};
    job.batch.n_queries = params->n;
    job.dim = from.tensor.dim;
    job.guest = from.tensor;
    job.guest_rows = rows.data();
    job.guest_values = values.data();
    job.readings = readings.data();
    DeviceArray<DenseJob> const on_device(&job, 1);
    check(cudaStreamSynchronize(nullptr));  // uploads are there before another stream reads them
    unsigned const grid = (params->n + kQueryThreads / kLanes - 1) / (kQueryThreads / kLanes);
    DenseJob const* const job_at = on_device.data();
    check(launch(take_queries, grid, kQueryThreads, 0, stream, job_at));
    check(cudaStreamSynchronize(stream));
    std::vector<float> all(params->n * dim);
    values.download(all.data());
    readings.download(from.readings);
    for (std::size_t i = 0; i < params->n; ++i)
      std::memcpy(from.values[i], all.data() + i * dim, dim * sizeof(float));
  });
}

}  // namespace hyrecall::cuda
