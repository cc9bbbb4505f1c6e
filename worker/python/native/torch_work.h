// The Work of an operation that runs on the host, for torch_lines.cpp: its wait ends where its
// group is dead.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "torch_python.h"
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace lockstep::torch_lines {

/// A Work of the host's, whose wait ends when its group is dead.
class WatchedWork final : public c10d::Work {
  using Inner = c10::intrusive_ptr<c10d::Work>;

 public:
  /// `has_future`: of the operator's works; false once one has had none.
  WatchedWork(Inner inner, std::vector<at::Tensor> tensors, int group, uint64_t number,
              std::atomic<bool>& has_future)
      : inner_(std::move(inner)),
        tensors_(std::move(tensors)),
        group_(group),
        number_(number),
        has_future_(has_future) {}

  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }
  float getDuration() const override { return inner_->getDuration(); }
  uint64_t getSequencenumber() const override { return inner_->getSequencenumber(); }

  bool wait(std::chrono::milliseconds timeout) override {
    if (!is_on || inner_->isCompleted()) return inner_->wait(timeout);
    // What others complete must outlive this wait, however it ends.
    struct Shared {
      std::mutex mutex;
      std::condition_variable changed;
      bool is_done = false, result = true;
      std::exception_ptr error;
      bool wait_a_little() {
        std::unique_lock lock(mutex);
        return changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return is_done; });
      }
    };
    auto shared = std::make_shared<Shared>();
    const auto done = [shared](bool result, std::exception_ptr error) {
      const std::lock_guard lock(shared->mutex);
      shared->is_done = true;
      shared->result = result;
      shared->error = std::move(error);
      shared->changed.notify_all();
    };
    const auto future = future_of();
    if (future) {
      future->addCallback([done](c10::ivalue::Future&) { done(true, nullptr); });
    } else {  // a send, a receive, some reductions: it completes in its own wait only
      std::thread([done, inner = inner_, tensors = tensors_, timeout] {
        try {
          done(inner->wait(timeout), nullptr);
        } catch (...) {
          done(false, std::current_exception());
        }
      }).detach();
    }
    lockstep_wait* looked = nullptr;
    if (given.wait_begin(given.lines, group_, number_, &looked) != LOCKSTEP_OK) raise_last();
    const std::unique_ptr<lockstep_wait, decltype(given.wait_end)> ended(looked, given.wait_end);
    const auto start = std::chrono::steady_clock::now();
    const auto is_over = [&] {
      return future && timeout != kNoTimeout && std::chrono::steady_clock::now() - start > timeout;
    };
    while (!shared->wait_a_little() && !is_over()) {
      // Who completes the operation must not meet a lock that is held for Python's.
      call(given.threads, nullptr);
      if (given.wait_look(looked) == LOCKSTEP_OK) continue;
      keep();
      raise_last();
    }
    // Completed, or late: then it says so itself, and at once.
    if (future) return inner_->wait(is_over() ? std::chrono::milliseconds(1) : timeout);
    if (shared->error) std::rethrow_exception(shared->error);
    return shared->result;
  }

 private:
  /// null: it has none.
  c10::intrusive_ptr<c10::ivalue::Future> future_of() {
    if (!has_future_) return {};
    try {
      return inner_->getFuture();
    } catch (const std::exception&) {
      has_future_ = false;
      return {};
    }
  }

  /// The operation stays where it is: what it reads and writes must stay too.
  void keep() {
    static auto* kept = new std::vector<std::pair<Inner, std::vector<at::Tensor>>>;
    static std::mutex keeping;
    const std::lock_guard lock(keeping);
    kept->emplace_back(inner_, tensors_);
  }

  Inner inner_;
  std::vector<at::Tensor> tensors_;
  int group_;
  uint64_t number_;
  std::atomic<bool>& has_future_;
};

}  // namespace lockstep::torch_lines
