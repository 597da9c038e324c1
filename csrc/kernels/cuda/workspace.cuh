// Memory and a stream for one search at a time; a device has a few, and searches take turns.
#pragma once

#include <compare>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/cuda/status.cuh"
#include "kernels/kernel_choice.hpp"

namespace hyrecall::cuda {

// Host memory that the device reads and writes by itself.
class PinnedBytes {
 public:
  PinnedBytes() = default;
  ~PinnedBytes() {
    if (data_ != nullptr) cudaFreeHost(data_);
  }
  PinnedBytes(PinnedBytes const&) = delete;
  PinnedBytes& operator=(PinnedBytes const&) = delete;

  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }
  void reserve(std::size_t bytes) {
    if (bytes <= size_) return;
    cudaFreeHost(std::exchange(data_, nullptr));
    size_ = 0;
    void* data = nullptr;
    check(cudaHostAlloc(&data, bytes, cudaHostAllocDefault));
    data_ = static_cast<std::uint8_t*>(data);
    size_ = bytes;
  }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

// Lays arrays one after another. Twice over the same arrays: first without memory, for the size.
class BlockLayout {
 public:
  BlockLayout(std::uint8_t* host, std::uint8_t* device) : host_(host), device_(device) {}

  std::size_t bytes() const { return bytes_; }
  // Room for n elements; where they lie on the device.
  template <typename T>
  T* room(std::size_t n) {
    std::size_t const at = bytes_;
    bytes_ = (bytes_ + n * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return device_ == nullptr ? nullptr : reinterpret_cast<T*>(device_ + at);
  }
  // The same, filled from the host.
  template <typename T>
  T const* copy(T const* from, std::size_t n) {
    if (host_ != nullptr && n > 0) std::memcpy(host_ + bytes_, from, n * sizeof(T));
    return room<T>(n);
  }
  template <typename T>
  T const* copy(std::span<T const> from) {
    return copy(from.data(), from.size());
  }
  float const* copy_rows(QueryParams const& from, std::size_t n) {
    if (host_ != nullptr && n > 0)
      from.write(from.context, reinterpret_cast<float*>(host_ + bytes_));
    return room<float>(n);
  }
  // What stands in room that is there already.
  template <typename T>
  void write(T const* at, T const& value) {
    if (host_ == nullptr) return;
    auto const* const place = reinterpret_cast<std::uint8_t const*>(at);
    std::memcpy(host_ + (place - device_), &value, sizeof value);
  }

 private:
  static constexpr std::size_t kAlignment = 256;

  std::uint8_t* host_;
  std::uint8_t* device_;
  std::size_t bytes_ = 0;
};

// What a call brings, what it gives, and what its kernels need.
struct Layouts {
  BlockLayout input{nullptr, nullptr};
  BlockLayout results{nullptr, nullptr};
  BlockLayout work{nullptr, nullptr};
};

// What a recorded sequence of kernels depends on, beside where its workspace's input begins. It has
// so few values that a workspace records some dozens, whatever comes to it: see sequence.cu.
struct GraphKey {
  std::uint32_t number;        // of the job in its call
  std::uint32_t n_queries;     // that there is a CTA for
  std::uint32_t sorted_rows;   // that pick_best() has room for
  std::uint32_t wide_queries;  // of a wide panel, 0: there are none
  std::int32_t plane;
  KernelChoice kernels;
  bool has_guest;
  bool is_lexical;
  bool has_words;  // of a lexical search: see scan_postings
  // Of each vector of queries of many; 0: a query has one; kNone32: they are sparse.
  std::uint32_t many_chunks;
  friend auto operator<=>(GraphKey const&, GraphKey const&) = default;
};

struct Workspace {
  // Room for what a call has laid out; is_short: no more than that.
  void reserve(Layouts const& sizes, bool is_short);
  // Gives the device's memory back, and with it all recordings.
  void clear();
  // A recording, or null.
  cudaGraphExec_t find_graph(GraphKey const& key);
  // Keeps a recording; of too many, the one that was used least recently goes.
  void keep_graph(GraphKey const& key, cudaGraphExec_t graph);

  Stream stream = make_stream();
  Stream side = make_stream();  // for what may run beside it
  Event forked = make_event();
  Event joined = make_event();
  PinnedBytes input;
  PinnedBytes results;
  // Jobs stand at its beginning, where recordings read them: it seldom grows.
  DeviceArray<std::uint8_t> device_input;
  DeviceArray<std::uint8_t> memory;  // results, then work

 private:
  static constexpr std::size_t kMostGraphs = 64;
  static constexpr std::size_t kLeastInput = std::size_t{1} << 20;

  struct Recording {
    CudaOwner<cudaGraphExec_t> graph;
    std::uint64_t last_use;
  };

  std::map<GraphKey, Recording> graphs_;
  std::uint64_t n_uses_ = 0;
};

// The workspaces of a device. A search borrows one; when all are lent it waits.
class WorkspacePool {
 public:
  explicit WorkspacePool(int) {}

  class Loan {
   public:
    explicit Loan(WorkspacePool& pool) : pool_(pool), workspace_(pool.take()) {}
    ~Loan() { pool_.give_back(workspace_, is_alone_); }
    Loan(Loan const&) = delete;
    Loan& operator=(Loan const&) = delete;
    Workspace& operator*() const { return *workspace_; }
    Workspace* operator->() const { return workspace_; }
    // Room for what a call lays out. Where it does not fit beside the others, this workspace is the
    // only one that has memory, and no other is lent until it is given back.
    void reserve(Layouts const& sizes);

   private:
    WorkspacePool& pool_;
    Workspace* workspace_;
    bool is_alone_ = false;
  };

 private:
  // Enough that copies, kernels and the host's part of several searches overlap.
  static constexpr std::size_t kMost = 4;

  Workspace* take();
  void give_back(Workspace* workspace, bool was_alone);
  void wait_alone(Workspace* own);

  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Workspace>> all_;
  std::vector<Workspace*> idle_;
  std::size_t n_waiting_ = 0;  // to be alone: lent, but empty
  bool is_alone_ = false;      // somebody is, or waits for the last of the others
};

// A call in a workspace: a copy each way.
class Call {
 public:
  // lay(Layouts&) lays out the same each time: first without memory, for the size.
  template <typename Lay>
  Call(int device, Lay&& lay) : workspace_(one_of<WorkspacePool>(device)) {
    lay(sizes_);
    workspace_.reserve(sizes_);
    std::uint8_t* const memory = workspace_->memory.data();
    Layouts made{{workspace_->input.data(), workspace_->device_input.data()},
                 {nullptr, memory},
                 {nullptr, memory + sizes_.results.bytes()}};
    lay(made);
  }

  Workspace& workspace() const { return *workspace_; }
  cudaStream_t stream() const { return workspace_->stream.get(); }
  void copy_in() const {
    check(cudaMemcpyAsync(workspace_->device_input.data(), workspace_->input.data(),
                          sizes_.input.bytes(), cudaMemcpyHostToDevice, stream()));
    // All of the results go back, also what nothing fills.
    check(cudaMemsetAsync(workspace_->memory.data(), 0, sizes_.results.bytes(), stream()));
  }
  void copy_out() const {
    check(cudaMemcpyAsync(workspace_->results.data(), workspace_->memory.data(),
                          sizes_.results.bytes(), cudaMemcpyDeviceToHost, stream()));
  }
  void wait() const { check(cudaStreamSynchronize(stream())); }
  // Where results that lie on the device lie on the host.
  template <typename T>
  T const* on_host(T* at) const {
    if (at == nullptr) return nullptr;
    auto const* const place = reinterpret_cast<std::uint8_t const*>(at);
    return reinterpret_cast<T const*>(workspace_->results.data() +
                                      (place - workspace_->memory.data()));
  }

 private:
  WorkspacePool::Loan workspace_;
  Layouts sizes_;
};

}  // namespace hyrecall::cuda
