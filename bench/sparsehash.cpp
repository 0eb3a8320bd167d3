// Count and sum by key with google::sparse_hash_map, which trades speed for memory: 2 bits per free bucket.
// Loaded by bench_cbt.py. Keys are std::string, for ours are of any length, too.
#include <cstdint>
#include <cstdio>
#include <functional>
#include <sparsehash/sparse_hash_map>
#include <string>
#include <vector>

namespace {
constexpr std::size_t key_bytes = 20, block_rows = 65536;

struct State {
    std::int64_t count = 0, sum = 0;
};
}  // namespace

// Groups, events and the sum of all values go to `out`; 0, or 1 when a file is too short.
extern "C" int count_and_sum(const char *keys_path, const char *values_path, std::int64_t events, std::int64_t *out) {
    google::sparse_hash_map<std::string, State, std::hash<std::string>> groups;
    std::vector<char> keys(block_rows * key_bytes);
    std::vector<std::int64_t> values(block_rows);
    std::FILE *key_file = std::fopen(keys_path, "rb"), *value_file = std::fopen(values_path, "rb");
    int failed = !key_file || !value_file;
    while (!failed && events) {
        std::size_t rows = std::min<std::int64_t>(events, block_rows);
        failed = std::fread(keys.data(), key_bytes, rows, key_file) != rows ||
                 std::fread(values.data(), 8, rows, value_file) != rows;
        for (std::size_t row = 0; row < rows && !failed; row++) {
            State &state = groups[std::string(keys.data() + row * key_bytes, key_bytes)];
            state.count++;
            state.sum += values[row];
        }
        events -= rows;
    }
    out[0] = groups.size(), out[1] = 0, out[2] = 0;
    for (const auto &group : groups) {
        out[1] += group.second.count;
        out[2] += group.second.sum;
    }
    if (key_file) std::fclose(key_file);
    if (value_file) std::fclose(value_file);
    return failed;
}
