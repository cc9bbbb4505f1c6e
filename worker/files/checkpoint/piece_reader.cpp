#include <cstring>

#include <fmt/format.h>

#include <lockstep/worker/files/checkpoint/digest.h>
#include <lockstep/worker/files/checkpoint/piece_reader.h>
#include <lockstep/worker/files/checkpoint/slab.h>

namespace lockstep::worker {
namespace {

Status bad_piece(const std::string& path, const std::string& what) {
  return bad_input(fmt::format("{}: {}.", path, what));
}

}  // namespace

PieceReader::PieceReader(std::string folder, const CheckpointIndex& index,
                         std::function<void()> report_busy)
    : folder_(std::move(folder)), index_(index), report_busy_(std::move(report_busy)) {
  if (!report_busy_) report_busy_ = [] {};
}

std::uint64_t PieceReader::bytes_read() const {
  return read_before_ + (file_ ? file_->bytes_read() : 0);
}

Result<const StoredTensor*> PieceReader::open(const IndexedTensor& tensor,
                                              const IndexedPiece& piece) {
  if (open_rank_ != piece.file) {
    read_before_ = bytes_read();
    file_.reset();
    open_rank_ = -1;
    const std::string path = fmt::format("{}/{}", folder_, rank_file_name(piece.file));
    auto opened = SafetensorsFile::open(path);
    if (!opened) return opened.error();
    const std::uint64_t bytes = opened->header().data_at + opened->header().data_bytes;
    const std::uint64_t expected = index_.file_bytes[static_cast<std::size_t>(piece.file)];
    if (bytes != expected)
      return bad_piece(path,
                       fmt::format("it has {} bytes, and {} when it was saved", bytes, expected));
    file_.emplace(std::move(*opened));
    open_rank_ = piece.file;
  }
  const StoredTensor* stored = file_->find(tensor.name);
  if (stored == nullptr || stored->dtype != tensor.dtype || stored->sizes != piece.box.sizes)
    return bad_piece(file_->path(), fmt::format("tensor {} is not there as the index has it",
                                                quoted_name(tensor.name)));
  return stored;
}

Result<void> PieceReader::read(const IndexedTensor& tensor, const IndexedPiece& piece,
                               const PartMemory& into) {
  const auto stored = open(tensor, piece);
  if (!stored) return stored.error();
  const Box part = common_part(piece.box, into.box);
  report_busy_();
  return each_run(part, piece.box, into.box, dtype_size(tensor.dtype), [&](const Run& run) {
    return file_->read_bytes(**stored, run.from, into.bytes.subspan(run.to, run.bytes));
  });
}

Result<void> PieceReader::verify(const IndexedTensor& tensor, const IndexedPiece& piece,
                                 const PartMemory* into) {
  const auto stored = open(tensor, piece);
  if (!stored) return stored.error();
  const std::size_t element = dtype_size(tensor.dtype);
  Digest digest;
  const auto take = [&](const Box& slab, std::uint64_t offset) -> Result<void> {
    std::uint64_t bytes = element;
    for (const std::int64_t size : slab.sizes) bytes *= static_cast<std::uint64_t>(size);
    buffer_.resize(static_cast<std::size_t>(bytes));
    if (auto read = file_->read_bytes(**stored, offset, buffer_); !read) return read;
    digest.add(buffer_);
    report_busy_();
    if (into == nullptr) return {};
    return each_run(common_part(slab, into->box), slab, into->box, element,
                    [&](const Run& run) -> Result<void> {
                      std::memcpy(into->bytes.data() + run.to, buffer_.data() + run.from,
                                  run.bytes);
                      return {};
                    });
  };
  if (auto done = each_slab(piece.box, element, kSlabBytes, take); !done) return done;
  if (digest.text() != piece.digest)
    return bad_piece(file_->path(), fmt::format("tensor {} is damaged: its digest is another than "
                                                "when it was saved; load an earlier checkpoint",
                                                quoted_name(tensor.name)));
  return {};
}

}  // namespace lockstep::worker
