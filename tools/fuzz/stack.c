/* Says the C stack of a process that dies, to standard error, and lets it die: see blame.py. */
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#define DEEPEST 48

static void tell(int number)
{
    void *frames[DEEPEST];
    static const char head[] = "C stack:\n";
    ssize_t written = write(2, head, sizeof head - 1);
    (void)written;
    backtrace_symbols_fd(frames, backtrace(frames, DEEPEST), 2);
    signal(number, SIG_DFL);
    raise(number);
}

int watch_deaths(void)
{
    static const int deaths[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    void *frame[1];
    struct sigaction action = {0};
    backtrace(frame, 1); /* loads what it needs now, not when memory is broken */
    action.sa_handler = tell;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    for (unsigned place = 0; place < sizeof deaths / sizeof *deaths; place++)
        if (sigaction(deaths[place], &action, 0) < 0)
            return -1;
    return 0;
}
