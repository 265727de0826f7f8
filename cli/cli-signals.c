/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <signal.h>

volatile gint cli_signals_interrupts;
volatile gint cli_signals_table_requests;

/* Only counts and wakes a sleeping loop: what a signal means is decided where the run is. */
static void
on_interrupt (int number)
{
  if (g_atomic_int_add (&cli_signals_interrupts, 1) >= 2)
    {
      struct sigaction action = { 0 };

      action.sa_handler = SIG_DFL;
      sigaction (number, &action, NULL);
      raise (number);
    }
  lmt_clock_wake ();
}

static void
on_table_request (int number)
{
  g_atomic_int_inc (&cli_signals_table_requests);
  lmt_clock_wake ();
}

static void catch (int number, void (*handler) (int), int flags)
{
  struct sigaction action = { 0 };
  struct sigaction before;

  /* nohup means it. SIGINT is different: shells ignore it for every background job, and somebody who sends one wants an end. */
  if (number == SIGHUP && sigaction (number, NULL, &before) == 0 && before.sa_handler == SIG_IGN)
    return;
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset (&action.sa_mask);
  sigaction (number, &action, NULL);
}

void
cli_signals_install (void)
{
  lmt_clock_real (); /* makes what lmt_clock_wake() writes to, before a handler can */
  catch (SIGINT, on_interrupt, 0);
  catch (SIGTERM, on_interrupt, 0);
  catch (SIGHUP, on_interrupt, 0);
  catch (SIGUSR1, on_table_request, SA_RESTART);
  catch (SIGPIPE, SIG_IGN, 0);
}
