// Files that earlier versions have written, in tests/worker/saved/files: each is read by this one.
// With WRITE_SAVED_FILES=DIR in the environment today's are written there, for a new version.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "saved_programs.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <lockstep/worker/files/saved/program_text.h>
#include <lockstep/worker/files/saved/saved_file.h>

namespace lockstep::worker::saved_files_test {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(SavedFiles, OfEveryVersion_ReadAsTheyWere) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(SAVED_FILES)) {
    if (entry.path().extension() != ".lsp") continue;
    ++files;
    SCOPED_TRACE(entry.path().filename().string());
    const auto program = read_program(entry.path().string(), {.known = {}, .stand_ins = true});
    ASSERT_TRUE(program) << program.error().text();
    EXPECT_EQ(program_text(*program), content(fs::path(entry.path()).replace_extension(".txt")));
  }
  EXPECT_GE(files, 2);
}

TEST(SavedFiles, OfToday_AreWrittenAsTheOneThatIsKept) {
  const auto bytes = encode(test::tiny_program());
  ASSERT_TRUE(bytes) << bytes.error().text();
  EXPECT_EQ(text_of(*bytes),
            content(fs::path(SAVED_FILES) / ("tiny." + std::to_string(kProgramVersion) + ".lsp")))
      << "the format has changed: raise its version, and keep files of both";
}

TEST(SavedFiles, WhereTheyAreAskedFor_AreWritten) {
  const char* folder = std::getenv("WRITE_SAVED_FILES");
  if (folder == nullptr) return;
  for (const auto& [name, program] :
       {std::pair{"tiny", test::tiny_program()}, {"small", test::small_program()}}) {
    const std::string path =
        (fs::path(folder) / fmt::format("{}.{}", name, kProgramVersion)).string();
    ASSERT_TRUE(write_program(path + ".lsp", program));
    std::ofstream(path + ".txt") << program_text(program);
  }
}

}  // namespace
}  // namespace lockstep::worker::saved_files_test
