#include "object.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <new>
#include <system_error>

namespace pyasc {

namespace {

// Pages of the processors above: what is protected apart lies on pages of its own on all of them.
constexpr uint64_t smallest_page = 4096, largest_page = 65536;
constexpr uint64_t most_bytes = uint64_t{1} << 28;  // of a block
// A slot for a symbol far away: a jump to the address that follows it.
constexpr uint64_t slot_size = 16, slot_address = 8;

[[noreturn]] void refuse(const std::string& what) { throw ObjectError("[load_object] " + what); }

// Headers may lie unaligned.
template <class T>
T read(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <class T>
void write(char* to, T value) {
    std::memcpy(to, &value, sizeof value);
}

uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

bool fits(int64_t value, int bits) {
    return value >= -(int64_t{1} << (bits - 1)) && value < int64_t{1} << (bits - 1);
}

// What a relocation type does; the names are those of the processors' ABI supplements.
enum class Kind {
    none,
    absolute64,
    relative64,
    relative32,
    call32,       // x86: relative, to a function
    table32,      // x86: relative, to the address of the symbol
    page,         // AArch64: ADRP
    low,          // AArch64: the low 12 bits of an address, as the instruction scales them
    call26,       // AArch64: BL, B
    table_page,   // AArch64: ADRP of the address of the symbol
    table_low64,  // AArch64: LDR of it
};

struct Type {
    Kind kind;
    unsigned width;      // bytes that it writes
    unsigned shift = 0;  // by which the instruction scales
};

Type type_of(Machine machine, uint32_t type) {
    if (machine == Machine::x86_64) {
        switch (type) {
            case R_X86_64_NONE:
                return {Kind::none, 0};
            case R_X86_64_64:
                return {Kind::absolute64, 8};
            case R_X86_64_PC64:
                return {Kind::relative64, 8};
            case R_X86_64_PC32:
                return {Kind::relative32, 4};
            case R_X86_64_PLT32:
                return {Kind::call32, 4};
            case R_X86_64_GOTPCREL:
            case R_X86_64_GOTPCRELX:
            case R_X86_64_REX_GOTPCRELX:
                return {Kind::table32, 4};
        }
    } else {
        switch (type) {
            case R_AARCH64_NONE:
                return {Kind::none, 0};
            case R_AARCH64_ABS64:
                return {Kind::absolute64, 8};
            case R_AARCH64_PREL64:
                return {Kind::relative64, 8};
            case R_AARCH64_PREL32:
                return {Kind::relative32, 4};
            case R_AARCH64_ADR_PREL_PG_HI21:
                return {Kind::page, 4};
            case R_AARCH64_ADD_ABS_LO12_NC:
            case R_AARCH64_LDST8_ABS_LO12_NC:
                return {Kind::low, 4};
            case R_AARCH64_LDST16_ABS_LO12_NC:
                return {Kind::low, 4, 1};
            case R_AARCH64_LDST32_ABS_LO12_NC:
                return {Kind::low, 4, 2};
            case R_AARCH64_LDST64_ABS_LO12_NC:
                return {Kind::low, 4, 3};
            case R_AARCH64_LDST128_ABS_LO12_NC:
                return {Kind::low, 4, 4};
            case R_AARCH64_CALL26:
            case R_AARCH64_JUMP26:
                return {Kind::call26, 4};
            case R_AARCH64_ADR_GOT_PAGE:
                return {Kind::table_page, 4};
            case R_AARCH64_LD64_GOT_LO12_NC:
                return {Kind::table_low64, 4, 3};
        }
    }
    refuse("expected relocations of known types, given type " + std::to_string(type));
}

bool needs_slot(Kind kind, bool defined) {
    if (kind == Kind::table32 || kind == Kind::table_page || kind == Kind::table_low64) return true;
    return !defined && (kind == Kind::call32 || kind == Kind::call26);
}

void write_slot(Machine machine, char* slot, uint64_t target) {
    if (machine == Machine::x86_64) {
        constexpr unsigned char jump[] = {0xff, 0x25, 2, 0, 0, 0, 0x66, 0x90};  // jmp *2(%rip); nop
        std::memcpy(slot, jump, sizeof jump);
    } else {
        write<uint32_t>(slot, 0x58000050);      // ldr x16, #8
        write<uint32_t>(slot + 4, 0xd61f0200);  // br x16
    }
    write<uint64_t>(slot + slot_address, target);
}

void write_relative32(char* to, int64_t distance) {
    if (!fits(distance, 32)) refuse("expected references that reach, given one too far away");
    write<int32_t>(to, static_cast<int32_t>(distance));
}

// The page of a target for ADRP: 21 bits, the lowest two apart.
void write_page(char* to, uint64_t target, uint64_t here) {
    const auto distance = static_cast<int64_t>((target & ~uint64_t{4095}) - (here & ~uint64_t{4095}));
    if (!fits(distance, 33)) refuse("expected references that reach, given one too far away");
    const auto pages = static_cast<uint32_t>(distance >> 12);
    const uint32_t instruction = read<uint32_t>(to) & 0x9f00001f;
    write<uint32_t>(to, instruction | (pages & 3) << 29 | (pages >> 2 & 0x7ffff) << 5);
}

void write_low(char* to, uint64_t target, unsigned shift) {
    const auto low = static_cast<uint32_t>(target & 4095);
    if (low & ((1u << shift) - 1)) refuse("expected data aligned as it is loaded");
    write<uint32_t>(to, (read<uint32_t>(to) & 0xffc003ff) | low >> shift << 10);
}

// Libraries that compiled code may call besides what the process offers to everything in it.
uint64_t resolve_in_process(const char* name) {
    if (void* found = dlsym(RTLD_DEFAULT, name)) return reinterpret_cast<uint64_t>(found);
    // By their own opening: a library that only an extension module uses is not visible to others.
    for (const char* library : {"libm.so.6", "libmvec.so.1", "libgcc_s.so.1"}) {
        static std::map<std::string_view, void*> opened;  // under the GIL
        const auto [entry, is_new] = opened.try_emplace(library, nullptr);
        if (is_new) entry->second = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
        if (!entry->second) continue;
        if (void* found = dlsym(entry->second, name)) return reinterpret_cast<uint64_t>(found);
    }
    return 0;
}

constexpr Machine this_machine =
#if defined(__aarch64__)
    Machine::aarch64;
#elif defined(__x86_64__)
    Machine::x86_64;
#else
    Machine{0};
#endif

}  // namespace

Object::Object(std::string_view bytes) : bytes_(bytes) {
    const auto header = read<Elf64_Ehdr>(range(0, sizeof(Elf64_Ehdr)));
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL)
        refuse("expected a relocatable 64-bit ELF object");
    machine_ = Machine{header.e_machine};
    if (machine_ != Machine::x86_64 && machine_ != Machine::aarch64)
        refuse("expected an object for x86-64 or AArch64");
    if (header.e_shentsize != sizeof(Elf64_Shdr)) refuse("expected section headers of the usual size");
    const char* at = range(header.e_shoff, header.e_shnum, sizeof(Elf64_Shdr));
    sections_.resize(header.e_shnum);
    for (Section& section : sections_) {
        const auto h = read<Elf64_Shdr>(at);
        at += sizeof(Elf64_Shdr);
        section.type = h.sh_type;
        section.flags = h.sh_flags;
        section.offset = h.sh_offset;
        section.size = h.sh_size;
        section.align = h.sh_addralign ? h.sh_addralign : 1;
        section.entry = h.sh_entsize;
        section.name = h.sh_name;
        section.link = h.sh_link;
        section.info = h.sh_info;
    }
    if (header.e_shstrndx >= sections_.size()) refuse("expected a table of section names");
    const Section names = sections_[header.e_shstrndx];
    for (Section& section : sections_) {
        if (!(section.flags & SHF_ALLOC) || !section.size) continue;
        // What unwinds the stack is left out: nothing is thrown through a kernel.
        if (std::strcmp(text(names, section.name), ".eh_frame") == 0) continue;
        constexpr uint64_t known = SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR | SHF_MERGE | SHF_STRINGS;
        if (section.flags & ~known || (section.flags & SHF_WRITE && section.flags & SHF_EXECINSTR) ||
            (section.type != SHT_PROGBITS && section.type != SHT_NOBITS))
            refuse("expected sections of code, constants and data");
        if (section.align & (section.align - 1) || section.align > smallest_page || section.size > most_bytes)
            refuse("expected sections of sound size and alignment");
        if (section.type == SHT_PROGBITS) range(section.offset, section.size);
        section.placed = true;
    }
    read_symbols();
    read_relocations();
    lay_out();
}

// Bytes of the object, checked to be there.
const char* Object::range(uint64_t offset, uint64_t size, uint64_t entry) const {
    if (offset > bytes_.size() || size > (bytes_.size() - offset) / entry)
        refuse("expected a whole object, given one that ends early");
    return bytes_.data() + offset;
}

const char* Object::text(const Section& table, uint32_t offset) const {
    const char* start = range(table.offset, table.size);
    if (table.type != SHT_STRTAB || offset >= table.size ||
        !std::memchr(start + offset, 0, table.size - offset))
        refuse("expected names inside their table");
    return start + offset;
}

void Object::read_symbols() {
    for (const Section& table : sections_) {
        if (table.type != SHT_SYMTAB) continue;
        if (!symbols_.empty() || table.entry != sizeof(Elf64_Sym) || table.link >= sections_.size())
            refuse("expected one table of symbols");
        const char* at = range(table.offset, table.size);
        symbols_.resize(table.size / sizeof(Elf64_Sym));
        for (Symbol& symbol : symbols_) {
            const auto s = read<Elf64_Sym>(at);
            at += sizeof(Elf64_Sym);
            symbol.name = text(sections_[table.link], s.st_name);
            symbol.type = ELF64_ST_TYPE(s.st_info);
            symbol.is_global = ELF64_ST_BIND(s.st_info) == STB_GLOBAL;
            symbol.section = s.st_shndx;
            symbol.value = s.st_value;
        }
    }
}

// Whether a symbol is in the block; throws where it is neither there nor outside.
bool Object::is_defined(const Symbol& symbol) const {
    if (symbol.section == SHN_UNDEF) return false;
    if (symbol.section >= sections_.size() || !sections_[symbol.section].placed ||
        symbol.value > sections_[symbol.section].size || symbol.type > STT_SECTION)
        refuse(std::string("expected symbols inside sections, given '") + symbol.name + "'");
    return true;
}

void Object::read_relocations() {
    for (const Section& table : sections_) {
        if (table.type != SHT_RELA && table.type != SHT_REL) continue;
        if (table.info >= sections_.size()) refuse("expected relocations of a section");
        const Section& section = sections_[table.info];
        if (!section.placed) continue;
        if (table.type == SHT_REL || section.type == SHT_NOBITS || table.entry != sizeof(Elf64_Rela))
            refuse("expected relocations with addends");
        const char* at = range(table.offset, table.size);
        for (uint64_t n = table.size / sizeof(Elf64_Rela); n--; at += sizeof(Elf64_Rela)) {
            const auto r = read<Elf64_Rela>(at);
            const Type type = type_of(machine_, ELF64_R_TYPE(r.r_info));
            if (type.kind == Kind::none) continue;
            if (section.size < type.width || r.r_offset > section.size - type.width ||
                ELF64_R_SYM(r.r_info) >= symbols_.size())
                refuse("expected relocations inside their section");
            Symbol& symbol = symbols_[ELF64_R_SYM(r.r_info)];
            symbol.used = true;
            symbol.needs_slot |= needs_slot(type.kind, is_defined(symbol));
            relocations_.push_back(
                {table.info, ELF64_R_TYPE(r.r_info), ELF64_R_SYM(r.r_info), r.r_offset, r.r_addend});
        }
    }
}

void Object::lay_out() {
    const auto place = [this](bool writable) {
        for (Section& section : sections_) {
            if (!section.placed || !!(section.flags & SHF_WRITE) != writable) continue;
            section.place = round_up(size_, section.align);
            size_ = section.place + section.size;
            if (size_ > most_bytes) refuse("expected an object of sound size");
        }
    };
    place(false);
    size_ = round_up(size_, slot_size);
    for (Symbol& symbol : symbols_) {
        if (!symbol.needs_slot) continue;
        symbol.slot = size_;
        size_ += slot_size;
    }
    writable_ = size_;
    size_ = round_up(size_, largest_page);
    place(true);
    if (size_ == round_up(writable_, largest_page)) size_ = writable_;
}

void Object::link(char* block, uint64_t address, const Resolve& resolve) const {
    for (const Section& section : sections_)
        if (section.placed && section.type == SHT_PROGBITS)
            std::memcpy(block + section.place, bytes_.data() + section.offset, section.size);

    std::vector<uint64_t> targets(symbols_.size());
    for (size_t n = 0; n < symbols_.size(); ++n) {
        const Symbol& symbol = symbols_[n];
        if (!symbol.used) continue;
        targets[n] = is_defined(symbol) ? address + sections_[symbol.section].place + symbol.value
                                        : resolve(symbol.name);
        if (!targets[n]) refuse(std::string("expected symbols that are there, given '") + symbol.name + "'");
        if (symbol.needs_slot) write_slot(machine_, block + symbol.slot, targets[n]);
    }

    for (const Relocation& r : relocations_) {
        const Symbol& symbol = symbols_[r.symbol];
        const uint64_t place = sections_[r.section].place + r.offset;
        const uint64_t here = address + place;
        const uint64_t slot = address + symbol.slot;
        const auto addend = static_cast<uint64_t>(r.addend);
        const uint64_t target = targets[r.symbol] + addend;
        const Type type = type_of(machine_, r.type);
        char* to = block + place;
        switch (type.kind) {
            case Kind::none:
                break;
            case Kind::absolute64:
                write<uint64_t>(to, target);
                break;
            case Kind::relative64:
                write<uint64_t>(to, target - here);
                break;
            case Kind::relative32:
                write_relative32(to, static_cast<int64_t>(target - here));
                break;
            case Kind::call32: {
                const auto distance = static_cast<int64_t>(target - here);
                const bool far = symbol.needs_slot && !fits(distance, 32);
                write_relative32(to, far ? static_cast<int64_t>(slot + addend - here) : distance);
                break;
            }
            case Kind::table32:
                write_relative32(to, static_cast<int64_t>(slot + slot_address + addend - here));
                break;
            case Kind::page:
                write_page(to, target, here);
                break;
            case Kind::low:
                write_low(to, target, type.shift);
                break;
            case Kind::call26: {
                auto distance = static_cast<int64_t>(target - here);
                if (symbol.needs_slot && !fits(distance, 28))
                    distance = static_cast<int64_t>(slot + addend - here);
                if (!fits(distance, 28) || distance & 3) refuse("expected calls that reach");
                write<uint32_t>(to, (read<uint32_t>(to) & 0xfc000000) |
                                        (static_cast<uint32_t>(distance >> 2) & 0x03ffffff));
                break;
            }
            case Kind::table_page:
                write_page(to, slot + slot_address + addend, here);
                break;
            case Kind::table_low64:
                write_low(to, slot + slot_address + addend, type.shift);
                break;
        }
    }
}

size_t Object::function(std::string_view name) const {
    for (const Symbol& symbol : symbols_)
        if (symbol.is_global && symbol.type == STT_FUNC && name == symbol.name && is_defined(symbol)) {
            const Section& section = sections_[symbol.section];
            if (section.flags & SHF_EXECINSTR && symbol.value < section.size)
                return section.place + symbol.value;
        }
    refuse("expected the function '" + std::string(name) + "'");
}

Code::Code(std::string_view bytes, const std::vector<std::string>& functions) {
    const Object object(bytes);
    if (object.machine() != this_machine) refuse("expected an object for this processor");
    for (const std::string& name : functions) addresses_.push_back(object.function(name));
    if (!object.size()) return;

    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t nbytes = round_up(object.size(), page);
    void* mapped = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    block_ = Block(static_cast<char*>(mapped), Unmap{nbytes});
    object.link(block_.get(), reinterpret_cast<uint64_t>(mapped), resolve_in_process);
    __builtin___clear_cache(block_.get(), block_.get() + nbytes);
    if (mprotect(mapped, round_up(object.writable(), page), PROT_READ | PROT_EXEC) != 0)
        throw std::system_error(errno, std::generic_category(), "[load_object] no executable memory");
    for (uint64_t& address : addresses_) address += reinterpret_cast<uint64_t>(mapped);
}

void Code::Unmap::operator()(char* block) const { munmap(block, nbytes); }

}  // namespace pyasc
