// A communicator that corrupts what it sends, for tests.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/communicator.h>

namespace lockstep {

/// Alters the last byte of messages from kLong bytes on, like a host that corrupts data.
class LyingCommunicator final : public collectives::Communicator {
 public:
  explicit LyingCommunicator(Communicator& honest) : honest_(honest) {}
  [[nodiscard]] Rank rank() const override { return honest_.rank(); }
  [[nodiscard]] int size() const override { return honest_.size(); }
  [[nodiscard]] std::string name() const override { return "lying " + honest_.name(); }
  void start(collectives::Round& round) override { honest_.start(lie_.emplace(round)); }
  Result<void> start(const collectives::Collective& collective) override {
    return honest_.start(collective);
  }
  using Communicator::run;
  Result<void> run(const collectives::Collective& collective) override {
    return honest_.run(collective);
  }
  Result<bool> poll() override { return honest_.poll(); }
  Result<void> wait() override { return honest_.wait(); }

 private:
  class Lie final : public collectives::Round {
   public:
    explicit Lie(Round& truth) : truth_(truth) {}
    [[nodiscard]] Want want() const override { return truth_.want(); }
    [[nodiscard]] std::size_t message_bytes() const override { return truth_.message_bytes(); }
    [[nodiscard]] std::span<const std::byte> outgoing() const override {
      const auto bytes = truth_.outgoing();
      if (bytes.size() < kLong) return bytes;
      altered_.assign(bytes.begin(), bytes.end());
      altered_.back() ^= std::byte{1};
      return altered_;
    }
    void sent() override { truth_.sent(); }
    void received(std::span<const std::byte> message) override { truth_.received(message); }

   private:
    static constexpr std::size_t kLong = 5000;
    Round& truth_;
    mutable Bytes altered_;
  };
  Communicator& honest_;
  std::optional<Lie> lie_;
};

}  // namespace lockstep
