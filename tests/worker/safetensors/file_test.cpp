// Safetensors files on disk: tensors, rows and any part come back as they were written, by reading
// their own bytes only; a file has its name when it is complete, or not at all.
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/worker/files/safetensors/file.h>
#include <lockstep/worker/files/safetensors/writer.h>

namespace lockstep::worker::file_test {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "safetensors-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string at(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

std::string bytes_of(const Array& array) {
  return {static_cast<const char*>(array.data()), array.bytes()};
}

Array random_array(DType dtype, std::vector<std::int64_t> sizes, std::mt19937_64& engine) {
  Array out(dtype, std::move(sizes));
  auto* at = static_cast<unsigned char*>(out.data());
  for (std::size_t i = 0; i < out.bytes(); ++i)
    at[i] = static_cast<unsigned char>(dtype == DType::Bool ? engine() % 2 : engine());
  return out;
}

constexpr DType kAll[] = {DType::Bool, DType::U8,  DType::I8,   DType::I16, DType::I32,
                          DType::I64,  DType::F16, DType::BF16, DType::F32, DType::F64};

TEST(SafetensorsFile, EveryDtype_ComesBackBitForBit) {
  const Folder folder;
  std::mt19937_64 engine(1);
  std::vector<NamedArray> written;
  for (const DType dtype : kAll) {
    const std::string name(dtype_name(dtype));
    written.push_back({name, random_array(dtype, {3, 5}, engine)});
    written.push_back({name + ".none", random_array(dtype, {0, 5}, engine)});
    written.push_back({name + ".one", random_array(dtype, {}, engine)});
  }
  const auto done = write_safetensors(folder.at("x"), written, {{"who", "me"}});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(folder.files(), 1u);
  auto file = SafetensorsFile::open(folder.at("x"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->header().metadata.at("who"), "me");
  EXPECT_EQ(file->tensors().size(), written.size());
  for (const NamedArray& tensor : written) {
    const auto back = file->read(tensor.name);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->dtype(), tensor.array.dtype());
    EXPECT_EQ(back->sizes(), tensor.array.sizes());
    EXPECT_EQ(bytes_of(*back), bytes_of(tensor.array)) << tensor.name;
  }
}

/// Every element by itself.
std::string naive_part(const Array& whole, const Box& part) {
  const std::size_t size = dtype_size(whole.dtype()), dims = part.sizes.size();
  std::string out;
  const auto all = bytes_of(whole);
  std::int64_t count = 1;
  for (const std::int64_t n : part.sizes) count *= n;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, place = 0, pitch = 1;
    for (std::size_t d = dims; d-- > 0;) {
      place += (part.start[d] + rest % part.sizes[d]) * pitch;
      rest /= part.sizes[d], pitch *= whole.sizes()[d];
    }
    out += all.substr(static_cast<std::size_t>(place) * size, size);
  }
  return out;
}

TEST(SafetensorsFile, RandomParts_AreThoseOfTheArrayAndReadNothingElse) {
  const Folder folder;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 engine(seed);
    const auto below = [&](std::int64_t n) {
      return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n));
    };
    std::vector<std::int64_t> sizes(engine() % 4);
    for (auto& size : sizes) size = below(6);
    const Array whole = random_array(kAll[engine() % 10], sizes, engine);
    const Array other = random_array(kAll[engine() % 10], {3}, engine);
    ASSERT_TRUE(write_safetensors(folder.at("x"), {{"w", whole}, {"o", other}}));
    auto file = SafetensorsFile::open(folder.at("x"));
    ASSERT_TRUE(file) << file.error().message;
    for (int i = 0; i < 10; ++i) {
      Box part = Box::whole(sizes);
      for (std::size_t d = 0; d < sizes.size(); ++d) {
        part.start[d] = below(sizes[d] + 1);
        part.sizes[d] = below(sizes[d] - part.start[d] + 1);
      }
      const std::uint64_t before = file->bytes_read();
      const auto read = file->read_part("w", part);
      ASSERT_TRUE(read) << "seed " << seed << ": " << read.error().message;
      EXPECT_EQ(bytes_of(*read), naive_part(whole, part)) << "seed " << seed << box_text(part);
      EXPECT_EQ(file->bytes_read() - before, read->bytes()) << "seed " << seed;
    }
  }
}

TEST(SafetensorsFile, Rows_AreRead) {
  const Folder folder;
  const Array x = Array::of(DType::I32, {4, 2}, std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7});
  ASSERT_TRUE(write_safetensors(folder.at("x"), {{"x", x}, {"n", Array::zeros(DType::F32, {})}}));
  auto file = SafetensorsFile::open(folder.at("x"));
  ASSERT_TRUE(file);
  const auto rows = file->read_rows("x", 1, 2);
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(rows->at(0), 2);
  EXPECT_EQ(rows->at(3), 5);
  const auto said = [&](const Result<Array>& read) { return read ? "" : read.error().message; };
  for (const auto& [first, count] : {std::pair{3, 2}, {-1, 2}, {5, 0}, {0, -1}})
    EXPECT_NE(said(file->read_rows("x", first, count)).find("is no part of tensor \"x\""),
              std::string::npos);
  EXPECT_NE(said(file->read_rows("n", 0, 1)).find("\"n\" has no rows"), std::string::npos);
  EXPECT_NE(said(file->read("y")).find("there is no tensor \"y\""), std::string::npos);
}

TEST(SafetensorsFile, WhatIsNoSuchFile_IsRefused) {
  const Folder folder;
  const auto said = [](const std::string& path) {
    const auto file = SafetensorsFile::open(path);
    if (file) return std::string("accepted");
    EXPECT_EQ(file.error().code, Code::BadInput);
    return file.error().message;
  };
  EXPECT_NE(said(folder.at("none")).find("there is no such file"), std::string::npos);
  EXPECT_NE(said(folder.at("")).find("it is no regular file"), std::string::npos);
  ASSERT_EQ(::mkfifo(folder.at("pipe").c_str(), 0600), 0);
  EXPECT_NE(said(folder.at("pipe")).find("it is no regular file"), std::string::npos);
  std::ofstream(folder.at("short")) << "1234567";
  EXPECT_NE(said(folder.at("short")).find("it has 7 bytes"), std::string::npos);
  std::ofstream(folder.at("text")) << "Some text, which is not what is asked for.";
  EXPECT_NE(said(folder.at("text")).find("at most 100000000 are read"), std::string::npos);
}

TEST(SafetensorsFile, EveryCutAndEveryAddedByte_IsFound) {
  const Folder folder;
  ASSERT_TRUE(write_safetensors(folder.at("x"), {{"x", Array::zeros(DType::F32, {3})}}));
  const auto size = std::filesystem::file_size(folder.at("x"));
  for (std::uintmax_t cut = 0; cut <= size + 2; ++cut) {
    std::filesystem::copy_file(folder.at("x"), folder.at("y"),
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(folder.at("y"), cut);
    EXPECT_EQ(static_cast<bool>(SafetensorsFile::open(folder.at("y"))), cut == size) << cut;
  }
}

TEST(SafetensorsFile, AFileThatBecomesShorter_IsFoundWhereItIsRead) {
  const Folder folder;
  ASSERT_TRUE(write_safetensors(folder.at("x"), {{"x", Array::zeros(DType::F32, {3})}}));
  auto file = SafetensorsFile::open(folder.at("x"));
  ASSERT_TRUE(file);
  std::filesystem::resize_file(folder.at("x"), std::filesystem::file_size(folder.at("x")) - 1);
  const auto read = file->read("x");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("became shorter"), std::string::npos);
}

TEST(SafetensorsWriter, UntilItIsPublished_TheEarlierFileStands) {
  const Folder folder;
  const Array old = Array::of(DType::F32, {1}, std::vector<double>{1});
  ASSERT_TRUE(write_safetensors(folder.at("x"), {{"x", old}}));
  const auto value = [&] { return SafetensorsFile::open(folder.at("x"))->read("x")->at(0); };
  const float next = 2;
  {
    auto writer = SafetensorsWriter::create(folder.at("x"), {{"x", DType::F32, {1}}});
    ASSERT_TRUE(writer);
    EXPECT_EQ(value(), 1);
    EXPECT_EQ(writer->sync().error().code, Code::Internal);  // bytes are missing
    ASSERT_TRUE(writer->append(std::as_bytes(std::span(&next, 1))));
    EXPECT_EQ(writer->append(std::as_bytes(std::span(&next, 1))).error().code, Code::Internal);
    EXPECT_EQ(writer->publish().error().code, Code::Internal);  // not on disk yet
    EXPECT_EQ(value(), 1);
    EXPECT_EQ(folder.files(), 2u);
  }
  EXPECT_EQ(folder.files(), 1u);  // given up, it leaves nothing
  EXPECT_EQ(value(), 1);
  auto writer = SafetensorsWriter::create(folder.at("x"), {{"x", DType::F32, {1}}});
  ASSERT_TRUE(writer && writer->append(std::as_bytes(std::span(&next, 1))) && writer->sync());
  EXPECT_EQ(value(), 1);
  ASSERT_TRUE(writer->publish());
  EXPECT_EQ(value(), 2);
  EXPECT_EQ(folder.files(), 1u);
}

TEST(SafetensorsWriter, ADiskThatIsFull_IsEnvironmentAndLeavesNothing) {
  const Folder folder;
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {1u, 100u, 4096u}) {
    struct rlimit small = before;
    small.rlim_cur = limit;
    ::setrlimit(RLIMIT_FSIZE, &small);
    const auto done = write_safetensors(folder.at("x"), {{"x", Array::zeros(DType::F32, {2000})}});
    ::setrlimit(RLIMIT_FSIZE, &before);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::Environment);
    EXPECT_NE(done.error().message.find("cannot write " + folder.at("x")), std::string::npos);
    EXPECT_EQ(folder.files(), 0u);
  }
  std::signal(SIGXFSZ, handler);
}

TEST(SafetensorsWriter, TheSmallFileOfTheReadme_IsWrittenByteForByte) {
  const Folder folder;
  const Array x = Array::of(DType::BF16, {2}, std::vector<double>{1, -2});
  ASSERT_TRUE(write_safetensors(folder.at("x"), {{"w1", x}}, {{"k", "v"}}));
  std::ifstream in(folder.at("x"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const std::string text =
      R"({"__metadata__":{"k":"v"},"w1":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})";
  EXPECT_EQ(bytes, std::string("\x58\0\0\0\0\0\0\0", 8) + text + "       " +
                       std::string("\x80\x3f\x00\xc0", 4));
}

}  // namespace lockstep::worker::file_test
