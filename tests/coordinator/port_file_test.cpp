// Port files, and those that are refused.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <lockstep/coordinator/messages/port_file.h>

namespace lockstep::coordinator::port_file_test {
namespace {

class Files : public testing::Test {
 protected:
  Files() : folder_(testing::TempDir() + "lockstep-endpoint-XXXXXX") { ::mkdtemp(folder_.data()); }
  ~Files() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::string folder_;
};

TEST_F(Files, PortFile_IsReadAsItWasWrittenAndNobodyElses) {
  const std::string path = folder_ + "/port";
  const PortFile with{{"127.0.0.1", 4711}, collectives::random_secret()},
      without{{"::1", 1}, std::nullopt};
  for (const PortFile& wanted : {with, without}) {
    ::umask(0);
    ASSERT_TRUE(wanted.write(path));
    struct stat found {};
    ASSERT_EQ(::stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600U);
    const auto read = PortFile::read(path).value();
    EXPECT_EQ(read.endpoint, wanted.endpoint);
    EXPECT_EQ(read.secret, wanted.secret);
  }
  ::chmod(path.c_str(), 0644);
  EXPECT_EQ(PortFile::read(path).error().code, Code::Version);
  for (const char* text : {"", "lockstep.coordinator/2\naddress 127.0.0.1:1\n",
                           "lockstep.coordinator/1\naddress nowhere\n",
                           "lockstep.coordinator/1\naddress 127.0.0.1:1\nother x\n"})
    EXPECT_EQ(PortFile::read(file("bad", text)).error().code, Code::BadInput) << text;
  EXPECT_EQ(with.write(folder_ + "/none/port").error().code, Code::Environment);
}

}  // namespace
}  // namespace lockstep::coordinator::port_file_test
