// The front of safetensors files: what is written is read back as the same, and whatever else comes
// is refused in one sentence that names file and tensor.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <lockstep/worker/files/safetensors/header.h>

namespace lockstep::worker::header_test {

/// Reads `text` as the header of a file "f" with so many bytes of data.
Result<SafetensorsHeader> parsed(const std::string& text, std::uint64_t data_bytes) {
  return parse_header(text, 8 + text.size() + data_bytes, "f");
}

std::string refusal(const std::string& text, std::uint64_t data_bytes) {
  const auto header = parsed(text, data_bytes);
  if (header) return "accepted";
  EXPECT_EQ(header.error().code, Code::BadInput);
  return header.error().message;
}

TEST(SafetensorsHeader, TensorsAndMetadata_AreRead) {
  const auto header = parsed(
      R"({"__metadata__":{"a":"b"},"x":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("s":{"data_offsets":[0,4],"shape":[],"dtype":"F32"}}   )",
      16);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->metadata, (std::map<std::string, std::string>{{"a", "b"}}));
  ASSERT_EQ(header->tensors.size(), 2u);
  EXPECT_EQ(header->tensors[0], (StoredTensor{"s", DType::F32, {}, 0, 4}));
  EXPECT_EQ(header->tensors[1], (StoredTensor{"x", DType::BF16, {2, 3}, 4, 12}));
}

TEST(SafetensorsHeader, NoTensors_IsAFile) {
  EXPECT_TRUE(parsed("{}", 0));
  EXPECT_TRUE(parsed(R"({"__metadata__":{}})", 0));
}

TEST(SafetensorsHeader, EmptyTensors_StandAnywhere) {
  EXPECT_TRUE(parsed(R"({"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},)"
                     R"("b":{"dtype":"I8","shape":[0,7],"data_offsets":[2,2]},)"
                     R"("c":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}})",
                     2));
}

TEST(SafetensorsHeader, EveryDtype_HasItsNameAndBack) {
  for (const DType dtype : {DType::Bool, DType::U8, DType::I8, DType::I16, DType::I32, DType::I64,
                            DType::F16, DType::BF16, DType::F32, DType::F64})
    EXPECT_EQ(stored_dtype(stored_dtype_name(dtype)), dtype);
  EXPECT_EQ(stored_dtype_name(DType::Bool), "BOOL");
  EXPECT_EQ(stored_dtype_name(DType::F64), "F64");
  EXPECT_EQ(stored_dtype("bf16"), std::nullopt);
}

std::string one(const std::string& entry) { return R"({"x":{)" + entry + "}}"; }

TEST(SafetensorsHeader, DamagedText_IsRefusedWithFileAndTensor) {
  struct Case {
    std::string text;
    std::uint64_t bytes;
    std::string says;
  };
  const std::string x = R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const Case cases[] = {
      {"[]", 0, "f: it is no safetensors file: its header does not start with {."},
      {"  {}", 0, "f: it is no safetensors file: its header does not start with {."},
      {"{} {}", 0, "f: its header is not JSON at byte"},
      {"{\"x", 0, "f: its header is not JSON at byte"},
      {"{\"\xff\":1}", 0, "f: its header is not JSON at byte"},
      {"{" + x + "," + x + "}", 4, R"(f: there are two tensors with the name "x".)"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0,
       R"(f: there are two tensors with the name "__metadata__".)"},
      {R"({"__metadata__":{"a":"b","a":"c"}})", 0, R"(f: its metadata "a" is there twice.)"},
      {R"({"__metadata__":{"a":1}})", 0,
       R"(f: its metadata "a" is a number in place of a string.)"},
      {R"({"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       "f: a tensor has an empty name."},
      {R"({"x":3})", 0, "f: its header holds a number in place of a tensor."},
      {one(R"("dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1])"), 1,
       R"(f: tensor "x" has the dtype "F8_E4M3", which is not known here; there are BOOL)"},
      {one(R"("dtype":"F32","shape":[1])"), 4, R"(f: tensor "x" lacks its data_offsets.)"},
      {one(R"("dtype":"F32","data_offsets":[0,4])"), 4, R"(f: tensor "x" lacks its shape.)"},
      {one(R"("shape":[1],"data_offsets":[0,4])"), 4, R"(f: tensor "x" lacks its dtype.)"},
      {one(R"("dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4])"), 4,
       R"(f: tensor "x" has dtype twice.)"},
      {one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1)"), 4,
       R"(f: tensor "x" has "more", which is not known here.)"},
      {one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4,
       R"(f: shape of tensor "x" holds a negative number.)"},
      {one(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), 4,
       R"(f: shape of tensor "x" holds a number that is not whole, or too large.)"},
      {one(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"), 4,
       R"(f: shape of tensor "x" holds a list.)"},
      {one(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4])"), 4,
       R"(f: shape of tensor "x" holds a size that is too large.)"},
      {one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0,
       R"(f: the sizes of tensor "x" are out of range.)"},
      {one(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"), 0,
       R"(f: the sizes of tensor "x" are out of range.)"},
      {one(R"("dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0])"), 0,
       R"(f: the sizes of tensor "x" are out of range.)"},
      {one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4,
       R"(f: data_offsets of tensor "x" are not a begin and an end.)"},
      {one(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), 4,
       R"(f: data_offsets of tensor "x" are not a begin and an end.)"},
      {one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), 4,
       R"(f: data_offsets of tensor "x" holds more than two numbers.)"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4,
       R"(f: tensor "x" takes 8 bytes by its shape and 4 by its data_offsets.)"},
      {one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), 8,
       R"(f: 4 bytes before tensor "x" belong to no tensor.)"},
      {"{" + x + R"(,"y":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", 6,
       R"(f: the bytes of tensor "y" overlap those of another.)"},
      {"{" + x + R"(,"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       R"(f: the bytes of tensor "y" overlap those of another.)"},
      {"{" + x + "}", 3, "f: its tensors have 4 bytes and the file has 3 behind the header"},
      {"{" + x + "}", 5, "f: its tensors have 4 bytes and the file has 5 behind the header"},
  };
  for (const Case& c : cases) {
    const std::string said = refusal(c.text, c.bytes);
    EXPECT_EQ(said.substr(0, c.says.size()), c.says) << c.text << "\n" << said;
    EXPECT_EQ(said.back(), '.');
  }
}

TEST(SafetensorsHeader, NumberOfDims_IsBounded) {
  std::string dims = "1";
  for (int i = 1; i < 64; ++i) dims += ",1";
  const auto with = [&](const std::string& more) {
    return one(R"("dtype":"U8","shape":[)" + dims + more + R"(],"data_offsets":[0,1])");
  };
  EXPECT_TRUE(parsed(with(""), 1));
  EXPECT_EQ(refusal(with(",1"), 1), R"(f: tensor "x" has more than 64 dims.)");
}

TEST(SafetensorsHeader, Length_IsComparedBeforeAnythingIsRead) {
  EXPECT_TRUE(check_header_length(2, 10, "f"));
  const auto said = [](std::uint64_t length, std::uint64_t file) {
    const auto fits = check_header_length(length, file, "f");
    return fits ? "accepted" : fits.error().message;
  };
  EXPECT_NE(said(100'000'001, UINT64_MAX).find("at most 100000000 are read"), std::string::npos);
  EXPECT_NE(said(UINT64_MAX, 10).find("at most 100000000 are read"), std::string::npos);
  EXPECT_NE(said(3, 10).find("cut short"), std::string::npos);
  EXPECT_NE(said(0, 8).find("header is empty"), std::string::npos);
  EXPECT_NE(said(0, 7).find("cut short"), std::string::npos);
}

TEST(SafetensorsHeader, LaidOut_IsAlignedAndReadBackAsTheSame) {
  const auto header = lay_out({{"b", DType::Bool, {3}},
                               {"\"\\\n\xc3\xa4", DType::I16, {2, 2}},
                               {"z", DType::F64, {0, 5}},
                               {"a", DType::F64, {}},
                               {"h", DType::BF16, {3}}},
                              {{"k", "\"v\"\n"}}, "f");
  ASSERT_TRUE(header) << header.error().message;
  for (const StoredTensor& tensor : header->tensors)
    EXPECT_EQ(tensor.begin % dtype_size(tensor.dtype), 0u) << tensor.name;
  const std::string bytes = header_bytes(*header);
  EXPECT_EQ(bytes.size() % 8, 0u);
  EXPECT_EQ(header->data_at, bytes.size());
  const auto back = parsed(bytes.substr(8), header->data_bytes);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->tensors, header->tensors);
  EXPECT_EQ(back->metadata, header->metadata);
  EXPECT_EQ(back->data_at, header->data_at);
}

TEST(SafetensorsHeader, WhatCannotBeWritten_IsRefused) {
  const auto said = [](std::vector<StoredTensor> tensors, std::map<std::string, std::string> meta) {
    const auto header = lay_out(std::move(tensors), std::move(meta), "f");
    return header ? "accepted" : header.error().message;
  };
  const StoredTensor x{"x", DType::F32, {1}};
  EXPECT_EQ(said({x, x}, {}), R"(f: there are two tensors with the name "x".)");
  for (const char* name : {"", "__metadata__", "\xff"})
    EXPECT_NE(said({{name, DType::F32, {1}}}, {}).find("can have the name"), std::string::npos);
  EXPECT_NE(said({{"x", DType::F32, {-1}}}, {}).find("out of range"), std::string::npos);
  EXPECT_NE(
      said({{"x", DType::I8, {INT64_MAX}}, {"y", DType::I8, {INT64_MAX}}}, {}).find("out of range"),
      std::string::npos);
  EXPECT_NE(said({x}, {{"k", "\xff"}}).find("not UTF-8"), std::string::npos);
}

}  // namespace lockstep::worker::header_test
