#include "kvpop/score/safetensors_header.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

using kvpop::error;
using kvpop::parse_safetensors_header;
using kvpop::safetensors_header;

safetensors_header parse(const std::string& json) { return parse_safetensors_header(json, "f"); }

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

#define CHECK_FAILS(json, message) CHECK_THROWS_WITH_AS(static_cast<void>(parse(json)), "kvpop: f: " message, error)

TEST_CASE("a header as it should be") {
  const safetensors_header h =
      parse("{\"__metadata__\": {\"k\": \"v\", \"\": \"\"}, " + tensor("b", "F32", "[2,3]", "[8,32]") + ",\n" +
            tensor("a", "I64", "[]", "[0,8]") + "," + tensor("none", "BF16", "[0,7]", "[8,8]") + "}   ");
  CHECK(h.metadata.size() == 2);
  CHECK(h.metadata.at("k") == "v");
  CHECK(h.tensors.size() == 3);
  CHECK(h.tensors.at("b").shape == std::vector<kvpop::index_t>{2, 3});
  CHECK(h.tensors.at("b").begin == 8);
  CHECK(h.tensors.at("b").dtype == "F32");
  CHECK(h.tensors.at("a").shape.empty());
  CHECK(h.data_bytes == 32);
  CHECK(parse("{}").data_bytes == 0);
  CHECK(parse("{\"__metadata__\":{}}").metadata.empty());
}

TEST_CASE("every dtype of the format has its size") {
  CHECK(kvpop::safetensors_element_bytes("F64") == 8);
  CHECK(kvpop::safetensors_element_bytes("F32") == 4);
  CHECK(kvpop::safetensors_element_bytes("BF16") == 2);
  CHECK(kvpop::safetensors_element_bytes("F16") == 2);
  CHECK(kvpop::safetensors_element_bytes("F8_E4M3") == 1);
  CHECK(kvpop::safetensors_element_bytes("BOOL") == 1);
  CHECK(kvpop::safetensors_element_bytes("f32") == 0);
}

TEST_CASE("offsets that do not tile the data") {
  CHECK_FAILS("{" + tensor("a", "F32", "[2]", "[0,8]") + "," + tensor("b", "F32", "[2]", "[4,12]") + "}",
              "tensor 'b': data_offsets begin at 4, overlapping a tensor that ends at 8");
  CHECK_FAILS("{" + tensor("a", "F32", "[2]", "[0,8]") + "," + tensor("b", "F32", "[2]", "[0,8]") + "}",
              "tensor 'b': data_offsets overlap another tensor");
  CHECK_FAILS("{" + tensor("a", "F32", "[2]", "[0,8]") + "," + tensor("b", "F32", "[2]", "[12,20]") + "}",
              "tensor 'b': data_offsets begin at 12, leaving a hole after 8");
  CHECK_FAILS("{" + tensor("a", "F32", "[2]", "[4,12]") + "}",
              "tensor 'a': data_offsets begin at 4, leaving a hole after 0");
  CHECK_FAILS("{" + tensor("a", "F32", "[2]", "[8,0]") + "}",
              "tensor 'a': data_offsets end at 0, before they begin at 8");
  CHECK_FAILS("{" + tensor("a", "F32", "[2]", "[0,12]") + "}",
              "tensor 'a': data_offsets span 12 bytes; dtype and shape need 8");
  CHECK_FAILS("{" + tensor("a", "F32", "[0]", "[4,4]") + "}",
              "tensor 'a': data_offsets lie beyond the data, which ends at 0");
  CHECK_FAILS("{" + tensor("a", "F32", "[2]", "[-8,0]") + "}",
              "byte 48 of the header: expected a non-negative integer");
  CHECK_FAILS("{" + tensor("a", "F32", "[2]", "[0,99999999999999999999]") + "}",
              "byte 68 of the header: a number does not fit 63 bits");
  CHECK_FAILS("{" + tensor("a", "F32", "[2]", "[0]") + "}", "byte 50 of the header: data_offsets needs two numbers");
  CHECK_FAILS("{" + tensor("a", "F32", "[2]", "[0,1,2]") + "}",
              "byte 52 of the header: at most 2 numbers are allowed here");
}

TEST_CASE("shapes that overflow") {
  CHECK_THROWS_WITH_AS(static_cast<void>(parse("{" + tensor("a", "F32", "[4611686018427387904,4]", "[0,0]") + "}")),
                       "kvpop: f: tensor 'a': 4 * 4611686018427387904 does not fit 63 bits", error);
  CHECK_FAILS("{" + tensor("a", "F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]") + "}",
              "byte 61 of the header: at most 16 numbers are allowed here");
}

TEST_CASE("what occurs twice, is unknown or is missing") {
  const std::string a = tensor("a", "F32", "[]", "[0,4]");
  CHECK_FAILS("{" + a + "," + a + "}", "byte 104 of the header: tensor 'a' occurs twice");
  CHECK_FAILS("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", "byte 32 of the header: metadata 'k' occurs twice");
  CHECK_FAILS("{\"__metadata__\":{},\"__metadata__\":{}}",
              "byte 35 of the header: expected '\"'");  // the second would have to be a tensor
  CHECK_FAILS("{" + tensor("a", "F33", "[]", "[0,4]") + "}", "tensor 'a': dtype 'F33' is unknown");
  CHECK_FAILS("{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}",
              "byte 31 of the header: a tensor needs dtype, shape and data_offsets");
  CHECK_FAILS("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}",
              "byte 28 of the header: member 'dtype' of a tensor is unknown or occurs twice");
  CHECK_FAILS("{\"a\":{\"type\":\"F32\"}}",
              "byte 13 of the header: member 'type' of a tensor is unknown or occurs twice");
}

TEST_CASE("JSON that is no header") {
  CHECK_FAILS("", "byte 0 of the header: a header begins with '{'");
  CHECK_FAILS(" {}", "byte 0 of the header: a header begins with '{'");
  CHECK_FAILS("[]", "byte 0 of the header: a header begins with '{'");
  CHECK_FAILS("{", "byte 1 of the header: expected '\"', found the end");
  CHECK_FAILS("{}}", "byte 2 of the header: text after the end of the header");
  CHECK_FAILS("{\"a\":1}", "byte 5 of the header: expected '{'");
  CHECK_FAILS("{\"a\":{}}", "byte 6 of the header: expected '\"'");
  CHECK_FAILS("{\"__metadata__\":{\"k\":1}}", "byte 21 of the header: expected '\"'");
  CHECK_FAILS("{\"__metadata__\":null}", "byte 16 of the header: expected '{'");
}

TEST_CASE("nesting of any depth is refused where it begins") {
  CHECK_FAILS("{\"a\":" + std::string(1000000, '{'), "byte 6 of the header: expected '\"'");
  CHECK_FAILS("{\"a\":{\"shape\":" + std::string(1000000, '['),
              "byte 15 of the header: expected a non-negative integer");
  CHECK_FAILS(std::string(1000000, '{'), "byte 1 of the header: expected '\"'");
}

}  // namespace
