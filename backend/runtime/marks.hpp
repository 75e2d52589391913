// Ranges around launches that a profiler of the system shows (mstx). The two functions come from outside,
// since their library is loaded only where a profiler listens.
#pragma once

#include <cstdint>

namespace pyasc::marks {

using Begin = uint64_t (*)(const char* name, void* stream);
using End = void (*)(uint64_t range);

inline Begin begin = nullptr;
inline End end = nullptr;

// One range, where there are functions and a name.
class Range {
  public:
    Range(const char* name, void* stream) : number_(name && begin ? begin(name, stream) : 0) {}
    ~Range() {
        if (number_ && end) end(number_);
    }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

  private:
    const uint64_t number_;
};

}  // namespace pyasc::marks
