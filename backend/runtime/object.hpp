// Relocatable ELF objects, as a compiler leaves them, made to run in this process.
//
// What LLVM emits for kernels on x86-64 and AArch64 is understood: code, constants and data; references to
// them; calls and references through a table to functions outside. All sections of an object lie in one
// block, so that references between them reach. Anything else, or anything damaged, is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace pyasc {

// An object that is damaged, or has something this does not understand.
struct ObjectError : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// The address of a symbol that an object does not define; 0 where there is none.
using Resolve = std::function<uint64_t(const char* name)>;

enum class Machine : uint16_t { x86_64 = 62, aarch64 = 183 };

// An object file, parsed; it looks at the bytes, which must outlive it.
class Object {
  public:
    explicit Object(std::string_view bytes);

    Machine machine() const { return machine_; }
    // Bytes of the block: first what is only read or run, then, from `writable` on, what is written.
    size_t size() const { return size_; }
    size_t writable() const { return writable_; }

    // Fill a block of `size()` zero bytes for code that will run at `address`, which is aligned to a page.
    void link(char* block, uint64_t address, const Resolve& resolve) const;
    // Where in the block a function is.
    size_t function(std::string_view name) const;

  private:
    struct Section {
        uint32_t type = 0;
        uint64_t flags = 0, offset = 0, size = 0, align = 1, entry = 0;
        uint32_t name = 0, link = 0, info = 0;
        bool placed = false;
        uint64_t place = 0;  // in the block
    };
    struct Symbol {
        const char* name = "";
        uint64_t value = 0;
        uint64_t slot = 0;  // in the block
        uint16_t section = 0;
        uint8_t type = 0;
        bool is_global = false, used = false, needs_slot = false;
    };
    struct Relocation {
        uint32_t section = 0, type = 0, symbol = 0;
        uint64_t offset = 0;
        int64_t addend = 0;
    };

    const char* range(uint64_t offset, uint64_t size, uint64_t entry = 1) const;
    const char* text(const Section& table, uint32_t offset) const;
    void read_symbols();
    void read_relocations();
    void lay_out();
    bool is_defined(const Symbol& symbol) const;

    std::string_view bytes_;
    Machine machine_;
    std::vector<Section> sections_;
    std::vector<Symbol> symbols_;
    std::vector<Relocation> relocations_;
    size_t size_ = 0, writable_ = 0;
};

// Executable memory with the code of one object, unmapped with the last reference to it.
class Code {
  public:
    Code(std::string_view object, const std::vector<std::string>& functions);

    const std::vector<uint64_t>& addresses() const { return addresses_; }

  private:
    struct Unmap {
        size_t nbytes;
        void operator()(char* block) const;
    };
    using Block = std::unique_ptr<char, Unmap>;

    Block block_{nullptr, Unmap{0}};
    std::vector<uint64_t> addresses_;
};

}  // namespace pyasc
