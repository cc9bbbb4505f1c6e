#include <cstring>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/collectives/simulated/simulated_data.h>

namespace lockstep::collectives {
namespace {

class Fake final : public Communicator {
 public:
  Fake(Rank self, int size) : self_(self), size_(size) {}

  [[nodiscard]] Rank rank() const override { return self_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string name() const override {
    return fmt::format("fake rank {} of {} (nothing is exchanged)", self_.value, size_);
  }

  [[nodiscard]] bool mirrors() const override { return true; }

  void start(Round& round) override {
    for (Round::Want want = round.want(); want.need != Round::Need::Done; want = round.want()) {
      if (want.need == Round::Need::Send) {
        round.sent();
        continue;
      }
      const std::span<const std::byte> mine = round.outgoing();
      const Bytes theirs(mine.begin(), mine.end());
      round.received(theirs);
    }
  }

  [[nodiscard]] Result<void> start(const Collective& collective) override;
  using Communicator::run;
  [[nodiscard]] Result<void> run(const Collective& collective) override {
    return start(collective);
  }
  [[nodiscard]] Result<bool> poll() override { return true; }
  [[nodiscard]] Result<void> wait() override { return {}; }

 private:
  Rank self_;
  int size_;
};

// In an all_to_all every peer is assumed to send this rank the block that this rank sends to
// itself.
Result<void> Fake::start(const Collective& collective) {
  if (auto ok = check(collective, size_); !ok) return ok;
  const auto row_bytes =
      static_cast<std::int64_t>(dtype_size(collective.dtype)) * collective.row_elements;
  if (collective.kind == Collective::Kind::AllToAll) {
    const auto self = static_cast<std::size_t>(self_.value);
    const std::int64_t rows = collective.send_rows[self];
    const auto* block = static_cast<const std::byte*>(collective.send);
    for (std::size_t peer = 0; peer < self; ++peer) block += collective.send_rows[peer] * row_bytes;
    auto* to = static_cast<std::byte*>(collective.receive);
    for (std::size_t peer = 0; peer < collective.receive_rows.size(); ++peer) {
      if (collective.receive_rows[peer] != rows)
        return internal_error(
            fmt::format("Fake rank {} sends itself {} rows, so every peer is taken to send "
                        "{}, but {} are expected from rank {}.",
                        self_.value, rows, rows, collective.receive_rows[peer], peer));
      if (rows > 0) std::memcpy(to, block, static_cast<std::size_t>(rows * row_bytes));
      to += rows * row_bytes;
    }
    return {};
  }
  if (collective.kind == Collective::Kind::Broadcast) return {};
  // The other ranks contribute the same send buffer; their results are not computed.
  Collective mine = collective;
  if (collective.kind == Collective::Kind::AllGather) {
    auto* to = static_cast<std::byte*>(mine.receive);
    const auto bytes = static_cast<std::size_t>(mine.rows * row_bytes);
    for (int r = 0; bytes > 0 && r < size_; ++r)
      std::memcpy(to + static_cast<std::size_t>(r) * bytes, mine.send, bytes);
    return {};
  }
  if (mine.kind == Collective::Kind::ReduceScatter && mine.rows > 0)
    mine.send = static_cast<const std::byte*>(mine.send) + self_.value * mine.rows * row_bytes;
  reduce_copies(mine, size_);
  return {};
}

}  // namespace

Result<std::unique_ptr<Communicator>> fake_communicator(Rank self, int size) {
  if (size < 1 || self.value < 0 || self.value >= size)
    return bad_input(fmt::format("Rank {} is not a rank of a group of {}.", self.value, size));
  return std::unique_ptr<Communicator>(std::make_unique<Fake>(self, size));
}

}  // namespace lockstep::collectives
