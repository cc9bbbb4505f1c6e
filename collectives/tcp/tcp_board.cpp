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

}  // namespace

Result<std::unique_ptr<Board>> tcp_board(TcpMesh& mesh, Duration patience) {
  if (mesh.size() == 1) return Board::in_process(1);
  const Instant until = SystemClock().now() + patience;
  const std::vector<Rank> here = of_this_host(mesh);
  const auto size = static_cast<int>(here.size());
  const Rank place{
      static_cast<std::int32_t>(std::find(here.begin(), here.end(), mesh.rank()) - here.begin())};
  std::string name;
  Result<std::unique_ptr<Board>> board = nullptr;
  if (place.value == 0) board = Board::create(mesh.size(), name);
  BroadcastRound tell(place, size, Rank{0}, bytes_of(board ? name : std::string()));
  auto met = run_round(mesh, here, Part::Kind::Board, tell, until);
  if (met && place.value != 0) board = Board::open(text_of(tell.result()), mesh.size());
  TreeRound opened(place, size, bytes_of(board ? std::string() : board.error().message),
                   [](std::span<const std::byte> lower, std::span<const std::byte> higher) {
                     const auto first = lower.empty() ? higher : lower;
                     return Bytes(first.begin(), first.end());
                   });
  if (met) met = run_round(mesh, here, Part::Kind::Board, opened, until);
  if (place.value == 0 && board) Board::unlink(name);
  if (met && !opened.result().empty())
    met = Status{Code::Environment, text_of(opened.result()), "", {}};
  if (met) return board;
  mesh.tell(met.error());
  return met.error();
}

}  // namespace lockstep::collectives
