// Memory and a stream for one search at a time; a device has a few, and searches take turns.
#pragma once

#include <compare>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/cuda/kept_lists.cuh"
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

// Sizes of what is copied to the device and back, rounded up.
struct Rooms {
  std::size_t input_bytes;
  std::size_t result_bytes;
  friend auto operator<=>(Rooms const&, Rooms const&) = default;
};

// What a recorded sequence of kernels depends on, beside the address of its workspace's job. It has
// so few values that a workspace records some dozens, whatever comes to it: see sequence.cu.
struct GraphKey {
  std::uint32_t n_queries;     // that there is a CTA for
  std::uint32_t sorted_rows;   // that pick_best() has room for
  std::uint32_t wide_queries;  // of a wide panel, 0: there are none
  std::int32_t plane;
  KernelChoice kernels;
  bool has_guest;
  bool is_lexical;
  bool has_words;  // of a lexical search: see scan_postings
  friend auto operator<=>(GraphKey const&, GraphKey const&) = default;
};

// A job on the device, and the host memory that is copied there. Its place is that of a workspace's
// recordings, so it stays where it is when arrays need more memory.
struct JobPlace {
  static constexpr std::size_t kBytes = 2048;

  std::uint8_t* on_host() const { return host.data(); }
  std::uint8_t* on_device() const { return device.data(); }

  PinnedBytes host;
  DeviceArray<std::uint8_t> device;
};

struct Workspace {
  Workspace();
  ~Workspace();
  Workspace(Workspace const&) = delete;
  Workspace& operator=(Workspace const&) = delete;

  // Room for what a call lays out.
  void reserve(Rooms const& rooms, std::size_t device_bytes);
  // Gives the device's memory back, and with it all recordings.
  void clear();
  // A recording, or null.
  cudaGraphExec_t find_graph(GraphKey const& key);
  // Keeps a recording; of too many, the one that was used least recently goes.
  void keep_graph(GraphKey const& key, cudaGraphExec_t graph);

  cudaStream_t stream = nullptr;
  JobPlace job;
  PinnedBytes input;
  PinnedBytes results;
  DeviceArray<std::uint8_t> memory;

 private:
  static constexpr std::size_t kMostGraphs = 64;
  struct Recording {
    cudaGraphExec_t graph;
    std::uint64_t last_use;
  };

  std::map<GraphKey, Recording> graphs_;
  std::uint64_t n_uses_ = 0;
};

// The workspaces of a device. A search borrows one; when all are lent it waits.
class WorkspacePool {
 public:
  static WorkspacePool& of_device(int device);

  class Loan {
   public:
    Loan(WorkspacePool& pool, Workspace* workspace) : pool_(pool), workspace_(workspace) {}
    ~Loan() { pool_.give_back(workspace_, is_alone_); }
    Loan(Loan const&) = delete;
    Loan& operator=(Loan const&) = delete;
    Workspace& operator*() const { return *workspace_; }
    Workspace* operator->() const { return workspace_; }
    // Room for what a call lays out. Where it does not fit beside the others, this workspace is the
    // only one that has memory, and no other is lent until it is given back.
    void reserve(Rooms const& rooms, std::size_t device_bytes);

   private:
    WorkspacePool& pool_;
    Workspace* workspace_;
    bool is_alone_ = false;
  };
  Loan borrow() { return {*this, take()}; }

  IdleLists& lists() { return lists_; }

 private:
  // Enough that copies, kernels and the host's part of several searches overlap.
  static constexpr std::size_t kMost = 4;

  Workspace* take();
  void give_back(Workspace* workspace, bool was_alone);
  void wait_alone(Workspace* own);

  IdleLists lists_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Workspace>> all_;
  std::vector<Workspace*> idle_;
  std::size_t n_waiting_ = 0;  // to be alone: lent, but empty
  bool is_alone_ = false;      // somebody is, or waits for the last of the others
};

}  // namespace hyrecall::cuda
