#include <algorithm>
#include <string>

#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>
#include <lockstep/collectives/tree.h>

namespace lockstep::collectives {
namespace {

/// The ranks of this process's host, in order.
std::vector<Rank> of_this_host(const TcpMesh& mesh) {
  std::vector<Rank> out;
  for (std::int32_t r = 0; r < mesh.size(); ++r)
    if (mesh.peer(Rank{r}).host_id == mesh.peer(mesh.rank()).host_id) out.push_back(Rank{r});
  return out;
}

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The memory that the ranks of a host share, as one rank has made or opened it.
struct Shared {
  Result<std::unique_ptr<Board>> board = nullptr;
  Result<std::unique_ptr<HostRings>> rings = nullptr;
};

/// Makes board and rings; returns their names, each empty if there was no memory.
std::string make(Shared& shared, int job, int host) {
  std::string board, rings;
  shared.board = Board::create(job, board);
  shared.rings = HostRings::create(host, 0, rings);
  return (shared.board ? board : std::string()) + '\n' + (shared.rings ? rings : std::string());
}

void open(Shared& shared, std::string_view names, int job, int host, int place) {
  const std::size_t end = names.find('\n');
  shared.board = Board::open(std::string(names.substr(0, end)), job);
  shared.rings = HostRings::open(std::string(names.substr(end + 1)), host, place);
}

/// Error texts of the board and of the rings; empty: none.
Bytes failures(const Shared& shared) {
  ByteWriter out;
  out.text(shared.board ? std::string() : shared.board.error().message);
  out.text(shared.rings ? std::string() : shared.rings.error().message);
  return std::move(out).take();
}

/// Keeps two texts, that of the board and that of the rings: each from the lowest rank that has
/// one.
Bytes join_failures(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  ByteReader first(lower), second(higher);
  ByteWriter out;
  for (int i = 0; i < 2; ++i) {
    const std::string a = first.text(), b = second.text();
    out.text(a.empty() ? b : a);
  }
  return std::move(out).take();
}

}  // namespace

Result<std::unique_ptr<Board>> tcp_board(TcpMesh& mesh, Duration patience) {
  if (mesh.size() == 1) return Board::in_process(1);
  const Instant until = SystemClock().now() + patience;
  const std::vector<Rank> here = of_this_host(mesh);
  const auto size = static_cast<int>(here.size());
  const Rank place{
      static_cast<std::int32_t>(std::find(here.begin(), here.end(), mesh.rank()) - here.begin())};
  Shared shared;
  std::string names;
  if (place.value == 0) names = make(shared, mesh.size(), size);
  BroadcastRound tell(place, size, Rank{0}, bytes_of(names));
  auto met = run_round(mesh, here, Part::Kind::Board, tell, until);
  if (met && place.value != 0) open(shared, text_of(tell.result()), mesh.size(), size, place.value);
  TreeRound opened(place, size, failures(shared), join_failures);
  if (met) met = run_round(mesh, here, Part::Kind::Board, opened, until);
  if (place.value == 0) {
    if (shared.board) Board::unlink(names.substr(0, names.find('\n')));
    if (shared.rings) SharedMemory::unlink(names.substr(names.find('\n') + 1));
  }
  ByteReader failed(opened.result());
  const std::string no_board = failed.text(), no_rings = failed.text();
  if (met && !no_board.empty()) met = environment_error(no_board);
  if (!met) {
    mesh.tell(met.error());
    return met.error();
  }
  // Without rings the ranks of a host use connections, as ranks of two hosts do.
  if (no_rings.empty() && size > 1) mesh.share(*std::move(shared.rings), here);
  return std::move(shared.board);
}

}  // namespace lockstep::collectives
