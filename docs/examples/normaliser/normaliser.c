/* A normaliser as a WebAssembly module, without a C library: docs/disk-io-vendors.md.
 *
 * It computes what a table cannot: a disk that reads and writes at the same time does less of both.
 * The total is more than the sum, by half of the smaller one. */

typedef unsigned long long u64;
typedef unsigned int u32;

#define EXPORT(name) __attribute__((export_name(#name)))
#define LENGTH(text) (sizeof(text) - 1)

static char buffer[512];
static const char disk_name[] = "Acme NV100";

/* A text is returned as its place in the high half of 64 bits and its length in the low half. */
static u64 packed(const char *text, u32 length) { return (u64)(u32)text << 32 | length; }

/* The afflux scheduler asks once for each call, so one buffer is enough for request and answer. */
EXPORT(alloc) char *alloc(u32 length) { return length < sizeof buffer ? buffer : 0; }

EXPORT(name) u64 name(void) { return packed(disk_name, LENGTH(disk_name)); }

/* The number after "field": in the request, in which all values are texts of digits. */
static u64 number(const char *request, u32 length, const char *field, u32 field_length) {
    for (u32 at = 0; at + field_length < length; at++) {
        u32 same = 0;
        while (same < field_length && request[at + same] == field[same]) same++;
        if (same < field_length) continue;
        u64 value = 0;
        for (at += same; at < length && request[at] != ','; at++)
            if (request[at] >= '0' && request[at] <= '9') value = value * 10 + (request[at] - '0');
        return value;
    }
    __builtin_trap(); /* the scheduler refuses the request, and says so */
}

static char *write_text(char *to, const char *text) {
    while (*text) *to++ = *text++;
    return to;
}

static char *write_number(char *to, u64 value) {
    if (value >= 10) to = write_number(to, value / 10);
    *to = (char)('0' + value % 10);
    return to + 1;
}

/* A byte in blocks of less than 32 KiB costs (1 + 32 KiB / block size) / 2 bytes in large ones. */
static u64 normalised(u64 bytes_per_second, u64 block_size) {
    const u64 large = 32 * 1024;
    if (bytes_per_second >> 40) __builtin_trap(); /* no disk has a TiB/s, and 64 bits are enough */
    if (block_size >= large) return bytes_per_second;
    return (bytes_per_second * (block_size + large) + 2 * block_size - 1) / (2 * block_size);
}

#define FIELD(name) number(request, length, "\"" name "\":", LENGTH("\"" name "\":"))

EXPORT(estimate_request) u64 estimate_request(const char *request, u32 length) {
    u64 block_size = FIELD("blocksize");
    u64 read = normalised(FIELD("rbps"), block_size);
    u64 write = normalised(FIELD("wbps"), block_size);
    u64 smaller = read < write ? read : write;
    char *end = write_number(write_text(buffer, "{\"rbps\": \""), read);
    end = write_number(write_text(end, "\", \"wbps\": \""), write);
    end = write_number(write_text(end, "\", \"total\": \""), read + write + smaller / 2);
    return packed(buffer, (u32)(write_text(end, "\"}") - buffer));
}
