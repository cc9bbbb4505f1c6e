#include "thread_group.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include <lockstep/collectives/base/half.h>

namespace lockstep::worker {

using collectives::Collective;

class ThreadGroup::Member final : public collectives::Communicator, public RunHost {
 public:
  Member(ThreadGroup& group, int rank) : group_(group), rank_(rank) {
    for (const Set& set : group.sets_) {
      const auto place = std::find(set.members.begin(), set.members.end(), rank);
      if (place != set.members.end())
        groups_[set.name] =
            std::make_unique<Member>(*set.group, static_cast<int>(place - set.members.begin()));
    }
  }

  [[nodiscard]] Rank rank() const override { return Rank{rank_}; }
  [[nodiscard]] int size() const override { return group_.size_; }
  [[nodiscard]] std::string name() const override { return "threads"; }
  void start(collectives::Round&) override { std::abort(); }
  [[nodiscard]] Result<void> start(const Collective& collective) override {
    pending_ = collective;
    return {};
  }
  using Communicator::run;
  [[nodiscard]] Result<void> run(const Collective& collective) override {
    pending_ = collective;
    return wait();
  }
  [[nodiscard]] Result<bool> poll() override { return true; }

  [[nodiscard]] Result<void> wait() override {
    if (!pending_) return {};
    if (auto met = meet({&*pending_, std::nullopt}); !met) return met;
    if (rank_ == 0) ++group_.collectives_;
    receive();
    group_.barrier_.arrive_and_wait();
    pending_.reset();
    return {};
  }

  Threads& threads() override {
    return group_.threads_ != nullptr ? *group_.threads_ : RunHost::threads();
  }

  [[nodiscard]] Communicator* group(std::string_view name) override {
    const auto found = groups_.find(name);
    return found == groups_.end() ? nullptr : found->second.get();
  }

  [[nodiscard]] Result<void> settle(const std::optional<LocalFailure>& mine) override {
    if (auto met = meet({nullptr, mine}); !met) return met;
    if (rank_ == 0) ++group_.rounds_;
    std::optional<LocalFailure> joint;
    for (int r = 0; r < size(); ++r) {
      const auto& failure = post(r)->failure;
      if (!failure || (joint && joint->node <= failure->node)) continue;
      joint = failure;
      joint->status.groups = {{RankSet::of(Rank{r}), "failed"}};
    }
    group_.barrier_.arrive_and_wait();
    if (joint) return joint->status;
    return {};
  }

  void leave() {
    post(rank_).reset();
    group_.barrier_.arrive_and_drop();
  }

 private:
  std::optional<Post>& post(int rank) { return group_.posts_[static_cast<std::size_t>(rank)]; }
  const Collective& of(int rank) { return *post(rank)->collective; }

  /// Waits for all ranks. If they meet in different operations, all of them get an error.
  Result<void> meet(Post mine) {
    post(rank_) = std::move(mine);
    group_.barrier_.arrive_and_wait();
    std::string what;
    bool all = true;
    for (int r = 0; r < size(); ++r) {
      what += text(r) + "; ";
      for (int other = 0; other < size(); ++other) all = all && fits(r, other);
    }
    if (all) return {};
    group_.barrier_.arrive_and_wait();
    return Status{Code::Stuck, "the ranks met in different things: " + what, {}, {}};
  }

  std::string text(int rank) {
    if (!post(rank)) return "gone";
    if (post(rank)->collective == nullptr) return "settles";
    return std::string(of(rank).label);
  }

  /// True if the operation of `rank` fits that of `other`.
  bool fits(int rank, int other) {
    if (!post(rank) || !post(other)) return false;
    if ((post(rank)->collective == nullptr) != (post(other)->collective == nullptr)) return false;
    if (post(rank)->collective == nullptr) return true;
    const Collective &a = of(rank), &b = of(other);
    if (a.kind != b.kind || a.dtype != b.dtype || a.row_elements != b.row_elements) return false;
    if (a.kind == Collective::Kind::AllToAll)
      return a.send_rows[static_cast<std::size_t>(other)] ==
             b.receive_rows[static_cast<std::size_t>(rank)];
    return a.rows == b.rows && a.reduce == b.reduce && a.root.value == b.root.value;
  }

  void receive() {
    const Collective& mine = *pending_;
    const std::size_t row = static_cast<std::size_t>(mine.row_elements) * dtype_size(mine.dtype);
    const auto rows = static_cast<std::size_t>(mine.rows);
    auto* to = static_cast<std::byte*>(mine.receive);
    switch (mine.kind) {
      case Collective::Kind::AllToAll:
        for (int r = 0; r < size(); ++r) {
          std::int64_t before = 0;
          for (int p = 0; p < rank_; ++p) before += of(r).send_rows[static_cast<std::size_t>(p)];
          const std::int64_t count = of(r).send_rows[static_cast<std::size_t>(rank_)];
          copy(to, of(r).send, static_cast<std::size_t>(before) * row,
               static_cast<std::size_t>(count) * row);
          to += static_cast<std::size_t>(count) * row;
        }
        return;
      case Collective::Kind::AllGather:
        for (int r = 0; r < size(); ++r, to += rows * row) copy(to, of(r).send, 0, rows * row);
        return;
      case Collective::Kind::Broadcast:
        if (mine.root.value != rank_) copy(to, of(mine.root.value).receive, 0, rows * row);
        return;
      case Collective::Kind::AllReduce:
        return reduce(0);
      case Collective::Kind::ReduceScatter:
        return reduce(mine.rows * rank_);
    }
  }

  static void copy(std::byte* to, const void* from, std::size_t start, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, static_cast<const std::byte*>(from) + start, bytes);
  }

  void reduce(std::int64_t first_row) {
    switch (pending_->dtype) {
      case DType::F64:
        return reduce_as<double>(first_row);
      case DType::F32:
        return reduce_as<float>(first_row);
      case DType::F16:
      case DType::BF16:
        return reduce_halves(first_row);
      case DType::I64:
        return reduce_as<std::int64_t>(first_row);
      case DType::I32:
        return reduce_as<std::int32_t>(first_row);
      case DType::I16:
        return reduce_as<std::int16_t>(first_row);
      case DType::I8:
        return reduce_as<std::int8_t>(first_row);
      case DType::U8:
      case DType::Bool:
        return reduce_as<std::uint8_t>(first_row);
    }
  }

  template <class T>
  [[nodiscard]] T joined(T a, T b) const {
    if (pending_->reduce == collectives::Reduce::Sum) return static_cast<T>(a + b);
    return pending_->reduce == collectives::Reduce::Min ? std::min(a, b) : std::max(a, b);
  }

  /// Reduces f16 and bf16 in f32, rounded once at the end.
  void reduce_halves(std::int64_t first_row) {
    const Collective& mine = *pending_;
    for (std::int64_t i = 0; i < mine.rows * mine.row_elements; ++i) {
      float total = 0;
      for (int r = 0; r < size(); ++r) {
        float x = 0;
        widen_halves(
            mine.dtype,
            static_cast<const std::uint16_t*>(of(r).send) + first_row * mine.row_elements + i, &x,
            1);
        total = r == 0 ? x : joined(total, x);
      }
      narrow_floats(mine.dtype, &total, static_cast<std::uint16_t*>(mine.receive) + i, 1);
    }
  }

  template <class T>
  void reduce_as(std::int64_t first_row) {
    const Collective& mine = *pending_;
    const std::int64_t n = mine.rows * mine.row_elements;
    for (std::int64_t i = 0; i < n; ++i) {
      T total{};
      for (int r = 0; r < size(); ++r) {
        const T x = static_cast<const T*>(of(r).send)[first_row * mine.row_elements + i];
        total = r == 0 ? x : joined(total, x);
      }
      static_cast<T*>(mine.receive)[i] = total;
    }
  }

  ThreadGroup& group_;
  int rank_;
  std::map<std::string, std::unique_ptr<Member>, std::less<>> groups_;
  std::optional<Collective> pending_;
};

ThreadGroup::ThreadGroup(int size)
    : size_(size), barrier_(size), posts_(static_cast<std::size_t>(size)) {}

ThreadGroup::~ThreadGroup() = default;

void ThreadGroup::declare(const std::string& name, const std::vector<int>& members) {
  sets_.push_back({name, members, std::make_unique<ThreadGroup>(static_cast<int>(members.size()))});
}

void ThreadGroup::run(const std::function<void(collectives::Communicator&, RunHost&)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < size_; ++r)
    threads.emplace_back([&, r] {
      Member member(*this, r);
      body(member, member);
      member.leave();
    });
  for (std::thread& thread : threads) thread.join();
}

void run_alone(const std::function<void(collectives::Communicator&, RunHost&)>& body,
               Threads* threads) {
  ThreadGroup group(1);
  group.threads_ = threads;
  group.run(body);
}

}  // namespace lockstep::worker
