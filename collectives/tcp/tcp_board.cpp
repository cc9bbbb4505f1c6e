#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::collectives {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// What `from` says of the board.
Result<std::string> hear(TcpMesh& mesh, Rank from, Instant until) {
  const SystemClock clock;
  while (true) {
    if (const auto message = mesh.take(from, kWorldGroup, Part::Kind::Board))
      return std::string(reinterpret_cast<const char*>(message->bytes.data()),
                         message->bytes.size());
    if (clock.now() > until || mesh.finished(from))
      return Status{Code::Stuck,
                    fmt::format("Rank {} (process {} on {}) has come to the start of the job, and "
                                "does not go on.",
                                from.value, mesh.peer(from).pid, mesh.peer(from).host),
                    "",
                    {}};
    if (auto moved = mesh.move(std::chrono::milliseconds(5)); !moved) return moved.error();
  }
}

/// The ranks of this process's host, in order.
std::vector<Rank> of_this_host(const TcpMesh& mesh) {
  std::vector<Rank> out;
  for (std::int32_t r = 0; r < mesh.size(); ++r)
    if (mesh.peer(Rank{r}).host_id == mesh.peer(mesh.rank()).host_id) out.push_back(Rank{r});
  return out;
}

/// The lowest rank of the host makes it and tells its name; the name goes once all have opened it.
Result<std::unique_ptr<Board>> make(TcpMesh& mesh, const std::vector<Rank>& others, Instant until) {
  std::string name;
  auto board = Board::create(mesh.size(), name);
  if (!board) name.clear();
  for (const Rank rank : others) mesh.send(rank, kWorldGroup, Part::Kind::Board, bytes_of(name));
  Result<void> all_well;
  for (const Rank rank : others) {
    const auto answer = hear(mesh, rank, until);
    if (!answer)
      all_well = answer.error();
    else if (!answer->empty())
      all_well = Status{Code::Environment, *answer, "", {}};
    if (!all_well) break;
  }
  if (board) Board::unlink(name);
  if (board && !all_well) return all_well.error();
  return board;
}

Result<std::unique_ptr<Board>> open(TcpMesh& mesh, Rank maker, Instant until) {
  const auto name = hear(mesh, maker, until);
  if (!name) return name.error();
  if (name->empty())
    return Status{Code::Environment,
                  "The lowest rank of this host could not make the progress board.",
                  "",
                  {}};
  auto board = Board::open(*name, mesh.size());
  mesh.send(maker, kWorldGroup, Part::Kind::Board,
            bytes_of(board ? std::string_view() : std::string_view(board.error().message)));
  return board;
}

}  // namespace

Result<std::unique_ptr<Board>> tcp_board(TcpMesh& mesh, Duration patience) {
  if (mesh.size() == 1) return Board::in_process(1);
  const Instant until = SystemClock().now() + patience;
  std::vector<Rank> here = of_this_host(mesh);
  const Rank lowest = here.front();
  here.erase(here.begin());
  auto board = lowest == mesh.rank() ? make(mesh, here, until) : open(mesh, lowest, until);
  if (!board) mesh.tell(board.error());
  return board;
}

}  // namespace lockstep::collectives
