/* Preloaded into a relay: for Rust's SystemTime the machine's clock is wrong by WRONG_CLOCK_SECONDS.
   librdkafka takes deadlines from gettimeofday() and waits for them in the kernel, by the true clock:
   that one is left alone. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const char *seconds = getenv("WRONG_CLOCK_SECONDS");
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME && seconds)
        now->tv_sec += atol(seconds);
    return failed;
}
