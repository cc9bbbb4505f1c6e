#include "tcp_relay.h"

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/// Where a relay listens to this process; 0: there is none.
extern std::atomic<std::uint16_t> tcp_relay_port;

namespace lockstep::collectives {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using Failure = boost::system::error_code;
using namespace std::chrono_literals;

}  // namespace

struct TcpRelay::Loop {
  /// One direction of a stream.
  struct Direction {
    tcp::socket* from = nullptr;
    tcp::socket* to = nullptr;
    Clock::duration late{0};
    Clock::time_point stalls_until{};
    bool loses = false;  // what comes goes nowhere
    std::array<char, 4096> incoming{};
    struct Piece {
      std::vector<char> bytes;
      Clock::time_point due;
    };
    std::deque<Piece> pieces;
    bool writing = false, ended = false;
  };

  struct Stream {
    explicit Stream(asio::io_context& io) : here(io), there(io) {}
    tcp::socket here, there;
    std::array<Direction, 2> directions{};
    std::uint16_t port = 0;
    Clock::time_point ends = Clock::time_point::max();
    bool over = false;
  };
  using StreamPtr = std::shared_ptr<Stream>;

  explicit Loop(std::uint64_t seed) : random(seed), acceptor(io), ticker(io) {
    acceptor.open(tcp::v4());
    acceptor.bind({asio::ip::address_v4::loopback(), 0});
    acceptor.listen();
    tcp_relay_port = port = acceptor.local_endpoint().port();
    accept();
    tick();
    thread = std::thread([this] { io.run(); });
  }
  ~Loop() {
    tcp_relay_port = 0;
    io.stop();
    thread.join();
  }

  void accept() {
    auto stream = std::make_shared<Stream>(io);
    acceptor.async_accept(stream->here, [this, stream](const Failure& failed) {
      if (failed) return;
      asio::async_read(stream->here, asio::buffer(&stream->port, 2),
                       [this, stream](const Failure& wrong, std::size_t) {
                         if (!wrong) go_on(stream);
                       });
      accept();
    });
  }

  /// By the bare system call: the one above is for the ranks.
  void go_on(const StreamPtr& stream) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = stream->port;
    const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const char answer = ::syscall(SYS_connect, file, &to, sizeof to) == 0 ? 1 : 0;
    Failure ignored;
    asio::write(stream->here, asio::buffer(&answer, 1), ignored);
    if (answer == 0) {
      ::close(file);
      return;
    }
    stream->there.assign(tcp::v4(), file);
    for (tcp::socket* socket : {&stream->here, &stream->there}) {
      socket->non_blocking(true, ignored);
      socket->set_option(tcp::no_delay(true), ignored);
    }
    stream->directions[0].from = stream->directions[1].to = &stream->here;
    stream->directions[1].from = stream->directions[0].to = &stream->there;
    for (std::size_t d = 0; d < 2; ++d) {
      if (random() % 6 == 0) stream->directions[d].late = 50ms;
      read(stream, d);
    }
    streams.push_back(stream);
  }

  void read(const StreamPtr& stream, std::size_t d) {
    Direction& way = stream->directions[d];
    way.from->async_read_some(
        asio::buffer(way.incoming), [this, stream, d](const Failure& failed, std::size_t n) {
          if (stream->over) return;
          Direction& here = stream->directions[d];
          if (failed) {
            here.ended = true;
            return write(stream, d);
          }
          if (!here.loses)
            here.pieces.push_back(
                {{here.incoming.begin(), here.incoming.begin() + static_cast<long>(n)},
                 Clock::now() + here.late});
          write(stream, d);
          read(stream, d);
        });
  }

  void write(const StreamPtr& stream, std::size_t d) {
    Direction& way = stream->directions[d];
    if (stream->over || way.writing) return;
    if (way.pieces.empty()) {
      if (way.ended && !way.loses) close(stream, false);
      return;
    }
    if (way.pieces.front().due > Clock::now() || way.stalls_until > Clock::now()) return;
    way.writing = true;
    asio::async_write(*way.to, asio::buffer(way.pieces.front().bytes),
                      [this, stream, d](const Failure& failed, std::size_t) {
                        stream->directions[d].writing = false;
                        if (stream->over) return;
                        if (failed) return close(stream, false);
                        stream->directions[d].pieces.pop_front();
                        write(stream, d);
                      });
  }

  void close(const StreamPtr& stream, bool by_reset) {
    stream->over = true;
    Failure ignored;
    for (tcp::socket* socket : {&stream->here, &stream->there}) {
      if (by_reset) socket->set_option(asio::socket_base::linger(true, 0), ignored);
      socket->close(ignored);
    }
  }

  /// One end is told, the other is not: what it says from now on is lost. It notices after a while,
  /// as by probes of the system.
  void forget_one_end(const StreamPtr& stream) {
    const std::size_t d = random() % 2;
    Failure ignored;
    stream->directions[d].to->shutdown(tcp::socket::shutdown_both, ignored);
    for (Direction& way : stream->directions) {
      way.loses = true;
      if (!way.writing) way.pieces.clear();
    }
    stream->ends = Clock::now() + 500ms;
  }

  void go_wrong(const StreamPtr& stream) {
    const auto time = std::chrono::milliseconds(10 + random() % 300);
    switch (random() % 8) {
      case 0:
        ++broken;
        return close(stream, false);
      case 1:
        ++broken;
        return close(stream, true);
      case 2:
        ++broken;
        return forget_one_end(stream);
      case 3:
        for (Direction& way : stream->directions) way.stalls_until = Clock::now() + time;
        ++stalled;
        return;
      default:
        stream->directions[random() % 2].stalls_until = Clock::now() + time;
        ++stalled;
    }
  }

  void tick() {
    std::erase_if(streams, [](const StreamPtr& one) { return one->over; });
    for (const StreamPtr& one : std::vector(streams)) {
      if (one->ends < Clock::now()) close(one, true);
      for (std::size_t d = 0; d < 2; ++d) write(one, d);
    }
    if (const std::size_t n = streams.size(); n > 0 && random() % 8 == 0)
      if (const StreamPtr one = streams[random() % n]; !one->over) go_wrong(one);
    ticker.expires_after(2ms);
    ticker.async_wait([this](const Failure& stopped) {
      if (!stopped) tick();
    });
  }

  std::mt19937_64 random;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::steady_timer ticker;
  std::vector<StreamPtr> streams;
  std::uint16_t port = 0;
  std::atomic<int> broken{0}, stalled{0};
  std::thread thread;
};

TcpRelay::TcpRelay(std::uint64_t seed) : loop_(std::make_unique<Loop>(seed)) {}
TcpRelay::~TcpRelay() = default;
int TcpRelay::port() const { return loop_->port; }
int TcpRelay::broken() const { return loop_->broken.load(); }
int TcpRelay::stalled() const { return loop_->stalled.load(); }

}  // namespace lockstep::collectives
