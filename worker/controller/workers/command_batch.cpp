#include <utility>

#include <lockstep/collectives/tree.h>
#include <lockstep/worker/controller/workers/command_batch.h>

namespace lockstep::worker {
namespace {

std::string_view view_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Bytes encode_batch(std::span<const Bytes> commands) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(commands.size()));
  for (const Bytes& command : commands) out.text(view_of(command));
  return std::move(out).take();
}

Result<std::vector<Command>> decode_batch(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  std::vector<Command> out;
  bool sound = true;
  for (std::uint32_t left = in.count(5); left > 0 && in.ok() && sound; --left) {
    const std::string text = in.text();
    auto command = decode_command(std::as_bytes(std::span(text)));
    sound = command.has_value();
    if (sound) out.push_back(*std::move(command));
  }
  if (sound && in.ok() && in.at_end()) return out;
  return internal_error("worker 0 passes on what are no commands");
}

Result<Bytes> share(collectives::Communicator& workers, Bytes mine, Rank from) {
  collectives::BroadcastRound round(workers.rank(), workers.size(), from, std::move(mine));
  if (auto done = workers.run(round); !done) return done.error();
  return round.result();
}

Result<Bytes> to_worker_0(collectives::Communicator& workers, Bytes mine, Rank from) {
  if (from.value == 0) return workers.rank().value == 0 ? std::move(mine) : Bytes{};
  ByteWriter length;
  length.u64(mine.size());
  const auto told = share(workers, std::move(length).take(), from);
  if (!told) return told.error();
  const auto rows = static_cast<std::int64_t>(ByteReader(*told).u64());
  std::vector<std::int64_t> send(static_cast<std::size_t>(workers.size()), 0), receive = send;
  const bool gives = workers.rank() == from, takes = workers.rank().value == 0;
  if (gives) send[0] = rows;
  if (takes) receive[static_cast<std::size_t>(from.value)] = rows;
  Bytes out(takes ? static_cast<std::size_t>(rows) : 0);
  collectives::Collective move{.kind = collectives::Collective::Kind::AllToAll,
                               .dtype = DType::U8,
                               .send = mine.data(),
                               .receive = out.data(),
                               .label = "a tensor for the controller"};
  move.send_rows = send, move.receive_rows = receive;
  if (auto done = workers.run(move); !done) return done.error();
  return out;
}

Result<std::shared_ptr<const Status>> first_failure(collectives::Communicator& workers,
                                                    const std::optional<Status>& mine) {
  Bytes own;
  if (mine) own = encode(Command(EndJob{*mine}));
  const auto first = [](std::span<const std::byte> lower, std::span<const std::byte> higher) {
    const auto chosen = lower.empty() ? higher : lower;
    return Bytes(chosen.begin(), chosen.end());
  };
  collectives::TreeRound round(workers.rank(), workers.size(), std::move(own), first,
                               workers.hosts());
  if (auto done = workers.run(round); !done) return done.error();
  if (round.result().empty()) return std::shared_ptr<const Status>{};
  const auto told = decode_command(round.result());
  const auto* failure = told ? std::get_if<EndJob>(&*told) : nullptr;
  if (failure != nullptr) return std::make_shared<const Status>(failure->why);
  return internal_error("a worker says what is no error");
}

}  // namespace lockstep::worker
