// Receives from any source, for torch_lines.cpp. Such a receive is compared once it has completed:
// only then is it known which send it took.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "torch_operators.h"
#include "torch_work.h"

namespace lockstep::torch_lines {

/// A receive from any source.
struct AnyReceive {
  const char* dtype = nullptr;
  const char* place = nullptr;
  Numbers elements, shape;
};

/// The receives from any source of one group and tag. They take the sends of each source in the
/// order in which the receives were issued, provided that one thread issues them all, and that the
/// group and tag have no receives that name their source. Otherwise it is not known which send a
/// receive took.
class AnyReceives {
 public:
  /// Called when a receive from one given source is issued. Returns true if the receive's number in
  /// its pair is known, because no receive from any source was issued before.
  [[nodiscard]] bool directed() {
    const std::lock_guard lock(mutex_);
    is_directed_ = true;
    return issued_ == 0;
  }

  /// Called before a receive from any source is issued. Returns the receive's number; -1: it is not
  /// compared.
  [[nodiscard]] int64_t issue(AnyReceive receive) {
    const std::lock_guard lock(mutex_);
    if (issued_++ == 0) thread_ = std::this_thread::get_id();
    if (thread_ != std::this_thread::get_id()) is_directed_ = true;
    if (is_directed_) return -1;
    pending_.push_back({std::move(receive), -1});
    return first_ + static_cast<int64_t>(pending_.size()) - 1;
  }

  /// Called if the completion of an issued receive will not be seen: no receive is compared any
  /// more.
  void abandon() {
    const std::lock_guard lock(mutex_);
    is_directed_ = true;
    pending_.clear();
  }

  /// Called when receive `number` has taken a send of `source`. Returns the receives whose numbers
  /// in their pairs are known now, each with its source.
  [[nodiscard]] std::vector<std::pair<int, AnyReceive>> completed(int64_t number, int source) {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<int, AnyReceive>> out;
    if (is_directed_ || number < first_) return out;
    pending_[static_cast<size_t>(number - first_)].source = source;
    for (; !pending_.empty() && pending_.front().source >= 0; ++first_) {
      out.emplace_back(pending_.front().source, std::move(pending_.front().receive));
      pending_.pop_front();
    }
    return out;
  }

 private:
  struct Pending {
    AnyReceive receive;
    int source;
  };
  std::mutex mutex_;  // guards the members below
  int64_t issued_ = 0, first_ = 0;
  bool is_directed_ = false;
  std::thread::id thread_;
  std::deque<Pending> pending_;  // the receives with numbers from `first_` on
};

/// The Work of a receive from any source. The receive is compared at the end of its wait.
class AnyReceiveWork final : public WorkAround {
 public:
  using Completed = std::function<void(int source)>;
  AnyReceiveWork(c10::intrusive_ptr<c10d::Work> inner, std::shared_ptr<AnyReceives> all,
                 Completed completed)
      : WorkAround(std::move(inner)), all_(std::move(all)), completed_(std::move(completed)) {}
  ~AnyReceiveWork() override {
    if (completed_) all_->abandon();
  }
  AnyReceiveWork(const AnyReceiveWork&) = delete;
  AnyReceiveWork& operator=(const AnyReceiveWork&) = delete;

  bool wait(std::chrono::milliseconds timeout) override {
    const bool done = inner_->wait(timeout);
    if (done && completed_) std::exchange(completed_, nullptr)(inner_->sourceRank());
    return done;
  }

 private:
  std::shared_ptr<AnyReceives> all_;
  Completed completed_;
};

}  // namespace lockstep::torch_lines
