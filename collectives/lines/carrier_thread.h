// The thread of a head (the lowest rank of a host) and its connections: a TCP mesh of all heads.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include <lockstep/collectives/lines/carrier.h>
#include <lockstep/collectives/tcp/tcp.h>

namespace lockstep::lines {

/// Shortest time between two notes.
inline constexpr Duration kTick = std::chrono::milliseconds(5);

/// Sends and receives the notes of a host's head. Thread-safe.
class CarrierThread {
 public:
  /// Collective over the heads: connects them. Requires that `carrier` has met the other heads
  /// (Carrier::meet()). `options` holds address, secret and deadline; rank and size are set here.
  /// Errors: those of tcp_rendezvous().
  [[nodiscard]] static Result<std::unique_ptr<CarrierThread>> start(
      SharedPosts& posts, std::unique_ptr<Carrier> carrier, collectives::TcpOptions options);
  /// Sends what is queued, closes the connections in good order and joins the thread.
  ~CarrierThread();

 private:
  CarrierThread(SharedPosts& posts, std::unique_ptr<Carrier> carrier,
                std::shared_ptr<collectives::TcpMesh> mesh);
  void run();
  void turn(Instant now);
  void hear(std::size_t other, Instant now);
  [[nodiscard]] bool has_left(std::size_t other) const;
  [[nodiscard]] std::size_t unheard() const;

  SharedPosts& posts_;
  std::unique_ptr<Carrier> carrier_;
  std::shared_ptr<collectives::TcpMesh> mesh_;
  std::vector<Rank> named_;  // ranks in the mesh of carrier_->others()
  Instant turned_at_{};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace lockstep::lines
