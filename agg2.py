import sys,collections
# self time by leaf grouped with callers: page faults attribution
c=collections.Counter(); n=0; stack=[]
def done():
    global n
    if not stack: return
    if any(x.startswith('lmt_replay_run') for x in stack) and not any(x.startswith('storage_finish') or x.startswith('timed_finish') for x in stack):
        n+=1
        for i,x in enumerate(stack):
            if x in ('asm_exc_page_fault',):
                c[' < '.join(stack[i+1:i+6])]+=1
for line in sys.stdin:
    line=line.rstrip()
    if not line: done(); stack=[]; continue
    if line[0] not in '\t ': continue
    p=line.split()
    stack.append(p[1].split('+')[0] if len(p)>1 else '?')
for k,v in c.most_common(14): print(f'{v*100/n:5.2f}',k)
