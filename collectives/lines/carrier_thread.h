// The thread of a head, and the connections by which its notes go: as ranks that no launcher started
// have them, each head a rank among heads.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include <lockstep/collectives/lines/carrier.h>
#include <lockstep/collectives/tcp/tcp.h>

namespace lockstep::lines {

/// Between two looks at what is to be told.
inline constexpr Duration kTick = std::chrono::milliseconds(5);

/// Of the head of a host. Thread-safe.
class CarrierThread {
 public:
  /// Collective over the heads: meets them. `carrier` has met(); `options`: where, with which secret,
  /// until when; rank and size are set here. Errors: those of tcp_rendezvous().
  [[nodiscard]] static Result<std::unique_ptr<CarrierThread>> start(
      std::unique_ptr<Carrier> carrier, Rank head, collectives::TcpOptions options);
  /// Says farewell to the others.
  ~CarrierThread();

  /// Until what has been posted before this call has come to the others, or `patience` is over.
  void flush(Duration patience);

 private:
  CarrierThread(std::unique_ptr<Carrier> carrier, std::shared_ptr<collectives::TcpMesh> mesh);
  void run();
  void turn(Instant now);
  void hear(std::size_t other, Instant now);
  [[nodiscard]] Rank named(std::size_t other) const;
  [[nodiscard]] bool has_left(std::size_t other) const;
  [[nodiscard]] std::size_t unheard() const;

  std::unique_ptr<Carrier> carrier_;
  std::shared_ptr<collectives::TcpMesh> mesh_;
  int self_ = 0;  // among the heads
  std::mutex turning_;  // guards what follows
  std::condition_variable turned_;
  std::uint64_t told_ = 0, all_have_ = 0;  // marks
  bool is_over_ = false, ends_ = false;
  std::thread thread_;
};

}  // namespace lockstep::lines
