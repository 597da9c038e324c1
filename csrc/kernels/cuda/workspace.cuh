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

// What a recorded sequence of kernels depends on, beside the addresses of its workspace.
struct GraphKey {
  Rooms rooms;
  std::uint32_t n_queries;
  std::uint32_t n_stages;
  std::uint32_t widths;  // a bit a width
  std::uint32_t sorted_rows;
  std::int32_t plane;
  KernelChoice kernels;
  bool has_guest;
  bool is_lexical;
  bool has_words;  // of a lexical search: see scan_postings
  friend auto operator<=>(GraphKey const&, GraphKey const&) = default;
};

struct Workspace {
  Workspace();
  ~Workspace();
  Workspace(Workspace const&) = delete;
  Workspace& operator=(Workspace const&) = delete;

  // Room for a search. What was recorded for other addresses is forgotten.
  void reserve(Rooms const& rooms, std::size_t device_bytes);
  // Gives all memory back.
  void clear();
  void forget_graphs();

  cudaStream_t stream = nullptr;
  PinnedBytes input;
  PinnedBytes results;
  DeviceArray<std::uint8_t> memory;
  std::map<GraphKey, cudaGraphExec_t> graphs;
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
