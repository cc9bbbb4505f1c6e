// The thread of a head, and the connections by which its notes go: as ranks that no launcher
// started have them, each head a rank among heads.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include <lockstep/collectives/lines/carrier.h>
#include <lockstep/collectives/tcp/tcp.h>

namespace lockstep::lines {

/// Between two looks at what is to be told.
inline constexpr Duration kTick = std::chrono::milliseconds(5);

/// Of the head of a host. Thread-safe.
class CarrierThread {
 public:
  /// Collective over the heads: meets them. `carrier` has met(); `options`: where, with which
  /// secret, until when; rank and size are set here. Errors: those of tcp_rendezvous().
  [[nodiscard]] static Result<std::unique_ptr<CarrierThread>> start(
      SharedPosts& posts, std::unique_ptr<Carrier> carrier, collectives::TcpOptions options);
  /// Says farewell to the others.
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
  std::vector<Rank> named_;  // of the others, in the mesh
  Instant turned_at_{};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace lockstep::lines
